"""Ctrl-C waits while torch's C++ calls Python that must not raise.

    with interrupts.deferred():
        fake * 2                    # C++ reads the fake tensor's device, in a constructor: Python runs
        ...                         # Ctrl-C arrives here: noted
                                    # here the block ends, and KeyboardInterrupt is raised

Some of C++'s constructors and destructors call Python (``InputMetadata`` of autograd reads a device), and an
exception that leaves them ends the process. A signal mask does not help: another thread of the process takes the
signal, and CPython runs the handler in the main thread all the same. So the Python functions that handle signals are
replaced for the time of the block, and called at its end.

In torch: nothing; there Ctrl-C at such a moment ends the process. Read next: nbcompile/torch_internals/modes.py
"""

from __future__ import annotations

import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from nbcompile.support.process_state import STATE, Lifetime

Handler = Callable[[int, FrameType | None], Any]

NAMES = "SIGINT SIGTERM SIGALRM SIGHUP SIGQUIT SIGUSR1 SIGUSR2 SIGVTALRM SIGPROF SIGXCPU SIGBREAK"
"""Ctrl-C, and signals by which programs and test runners limit time."""
SIGNALS = tuple(getattr(signal, name) for name in NAMES.split() if hasattr(signal, name))
PATIENCE = 3.0
"""Seconds after a first signal, from which on the next one is handled at once: the block may never end."""


@dataclass(slots=True, eq=False)
class _Block:
    """The outermost block that defers signals."""

    handlers: dict[int, Handler] = field(default_factory=dict)
    """The program's own, by signal."""
    noted: dict[int, float] = field(default_factory=dict)
    """The time at which each signal arrived first."""

    def note(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal later, or now if the block has ended or takes too long."""
        if _block[0] is not self or time.monotonic() - self.noted.setdefault(number, time.monotonic()) > PATIENCE:
            self.noted.pop(number, None)
            self.handlers[number](number, frame)


_block: list[_Block | None] = STATE.add("torch_internals.interrupts._block", [None], Lifetime.TASK)
"""Signals are handled only in the main thread, so there is at most one."""


@contextmanager
def deferred() -> Iterator[None]:
    """Defer signals whose handlers are Python functions to the end of the block. Blocks may be nested."""
    # CPython handles signals in the main thread only.
    if _block[0] is not None or not _is_main_thread():
        yield
        return
    block = _Block()
    try:
        _enter(block)
        yield
    finally:
        _leave(block)


@contextmanager
def allowed() -> Iterator[None]:
    """Handle signals at once in a part of a deferring block that takes long and is not called by C++."""
    block = _block[0]
    if block is None or not _is_main_thread():
        yield
        return
    _leave(block)
    try:
        yield
    finally:
        _enter(block)


def release() -> None:
    """Leave a block whose exit failed: Python's stack may have been too deep for the call."""
    block = _block[0]
    if block is not None and _is_main_thread():
        _leave(block)


def pass_on(error: BaseException) -> None:
    """Raise the exception of the program's signal handler if it caused an error of the compiler."""
    codes = {_code(signal.getsignal(number)) for number in SIGNALS} - {None}
    for cause in _causes(error):
        if any(frame.f_code in codes for frame, _ in traceback.walk_tb(cause.__traceback__)):
            raise cause


def _code(handler: object) -> CodeType | None:
    """The code of a function, of a method, or of a callable object; SIG_DFL and SIG_IGN have none."""
    if not callable(handler):
        return None
    found = getattr(handler, "__func__", handler)
    return getattr(found, "__code__", None) or getattr(getattr(type(found), "__call__", None), "__code__", None)  # noqa: B004 - the class's own


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An exception, and those that it came from."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        yield error
        seen.append(error)
        error = error.__cause__ or error.__context__


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _enter(block: _Block) -> None:
    _block[0] = block
    for number in SIGNALS:
        handler = signal.getsignal(number)
        if callable(handler):
            block.handlers[number] = handler
            signal.signal(number, block.note)


def _leave(block: _Block) -> None:
    """Restore the handlers, and handle the deferred signals; a second call does nothing."""
    # A handler that was set inside of the block is the program's newest: it stays.
    ours = [number for number in block.handlers if signal.getsignal(number) == block.note]
    theirs = [block.handlers[number] for number in ours]
    try:
        # One call of C's: no handler runs between two of them, though each lets handlers run first.
        list(map(signal.signal, ours, theirs))
    except BaseException:
        list(map(signal.signal, ours, theirs))
        raise
    finally:
        _block[0] = None
        _handle(block)


def _handle(block: _Block) -> None:
    """Handle the deferred signals, also if a handler raises."""
    if not block.noted:
        return
    # One at a time, and the rest in a finally: the handler of the first mostly raises KeyboardInterrupt.
    number = next(iter(block.noted))
    del block.noted[number]
    try:
        block.handlers[number](number, sys._getframe())
    finally:
        _handle(block)
