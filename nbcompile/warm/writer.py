"""Entries are written when the call that compiled them is over: its result does not wait for the disk.

    later(key, write)      what is kept is data by now; making text of it and writing it is left to a thread
    flush(key)             wait for the entries of one key; flush() for all

The thread begins when no call of a compiled function runs any more, or after ``PATIENCE``: it would take the
interpreter's lock from the very call that it is to spare. It ends when nothing is left to write. Who needs an entry
waits for it: a look-up of the same key, ``reset``, a fork (the child has no such thread), the end of the interpreter.
Only a process that is killed loses what it had not begun to write; an entry on the disk is whole whatever happens.

In torch: nothing; torch/_inductor/codecache.py writes inside of the call. Read next: nbcompile/warm/shelf.py
"""

from __future__ import annotations

import atexit
import multiprocessing.process
import multiprocessing.util
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from nbcompile.dispatch import lifetimes
from nbcompile.warm import shelf

PATIENCE = 5.0
"""Seconds that a call of a compiled function may go on before entries are written beside it."""
LOOK = 0.01
"""Seconds between two looks at whether such a call is over."""
LIMIT = 10.0
"""Seconds that a fork, or the end of the interpreter, waits for a disk that does not answer."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """What is to be written."""

    key: str
    write: Callable[[], None]


class _Desk:
    """The entries that wait, in order, and the thread that writes them; all of it under one lock."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.waiting: deque[Entry] = deque()
        """The first is the one that is being written."""
        self.thread: threading.Thread | None = None
        self.in_a_hurry = 0
        """How many wait for entries right now."""
        self.has_finalizer = False


_desk = _Desk()


def later(key: str, write: Callable[[], None]) -> None:
    """Have an entry written soon, by another thread; what ``write`` closes over must not change any more."""
    with _desk.changed:
        _desk.waiting.append(Entry(key, write))
        _ask_to_wait_at_the_end()
        is_served = _serve_it()
    if not is_served:
        _write_all()


def flush(key: str | None = None, timeout: float | None = None) -> bool:
    """Wait until the entries of a key are written, or refused by the disk; without a key, all. Whether they are."""
    desk = _desk
    if not _is_waiting(desk, key):
        return True
    if desk.thread is threading.current_thread():
        return False  # what it writes led to a warning, and somebody's handler of warnings asks
    with desk.changed:
        if _serve_it():
            desk.in_a_hurry += 1
            desk.changed.notify_all()
            try:
                return desk.changed.wait_for(lambda: not _is_waiting(desk, key), timeout)
            finally:
                desk.in_a_hurry -= 1
    _write_all()
    return True


def _is_waiting(desk: _Desk, key: str | None) -> bool:
    return any(key in (None, each.key) for each in tuple(desk.waiting))


def _serve_it() -> bool:
    """See to it that a thread writes; False where none can be started any more: the interpreter is ending."""
    if _desk.thread is not None and _desk.thread.is_alive():
        return True
    _desk.thread = threading.Thread(target=_work, args=(_desk,), name="nbcompile store", daemon=True)
    try:
        _desk.thread.start()
    except RuntimeError:
        _desk.thread = None
        return False
    return True


def _work(desk: _Desk) -> None:
    """The thread: one entry after another, until none is left."""
    while True:
        _let_calls_end(desk)
        with desk.changed:
            if not desk.waiting:
                desk.thread = None
                return
            entry = desk.waiting[0]
        _write(entry)
        with desk.changed:
            desk.waiting.popleft()
            desk.changed.notify_all()


def _let_calls_end(desk: _Desk) -> None:
    ends = time.monotonic() + PATIENCE
    with desk.changed:
        while not desk.in_a_hurry and not lifetimes.nobody_is_inside() and time.monotonic() < ends:
            desk.changed.wait(LOOK)


def _write(entry: Entry) -> None:
    try:
        entry.write()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a filter made an error of a warning; the other entries are written
        told = (type(error), error, error.__traceback__, threading.current_thread())
        threading.excepthook(threading.ExceptHookArgs(told))


def _write_all() -> None:
    """Without a thread, in the one that asks."""
    while _desk.waiting:
        _write(_desk.waiting[0])
        _desk.waiting.popleft()


def _ask_to_wait_at_the_end() -> None:
    """Be the first to be asked at the end: before the folder of a store that lives no longer is removed."""
    atexit.unregister(_finish)
    atexit.register(_finish)
    if multiprocessing.process.parent_process() is not None and not _desk.has_finalizer:
        multiprocessing.util.Finalize(None, _finish, exitpriority=10)  # such a process leaves atexit out
        _desk.has_finalizer = True


def _finish() -> None:
    if not flush(timeout=LIMIT):
        shelf.warn(
            "late", f"the disk was busy for {LIMIT:g} s: what was compiled last is not kept for the next process"
        )


def _begin_anew() -> None:
    """In a forked child: the thread is not there, and what still waits the parent writes."""
    global _desk  # noqa: PLW0603 - the lock of the old one may be held for ever
    _desk = _Desk()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_finish, after_in_child=_begin_anew)
