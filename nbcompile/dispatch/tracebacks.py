"""Tracebacks of exceptions that go through a compiled function: the user's frames and torch's, without ours.

    cell:9   forward                         cell:9   forward
    nbcompile/eval_frame/, dispatch/         torch/nn/modules/linear.py
    torch/nn/modules/linear.py       ->
    nbcompile/runtime/program.py

While a frame is compiled, torch's frames run on behalf of the compiler, and are removed. With ``config.verbose`` all
frames are kept.

In torch: ``raise e.with_traceback(None)`` in torch/_dynamo/eval_frame.py. Read next: nbcompile/errors.py
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, TracebackType

from nbcompile import config, errors
from nbcompile.bytecode.disassemble import exception_table
from nbcompile.support.process_state import STATE, Lifetime

_OURS = str(Path(__file__).parents[1]) + os.sep
_WRAPPERS = f"{_OURS}eval_frame{os.sep}"
_COMPILING: list[CodeType] = STATE.add("dispatch.tracebacks._COMPILING", [], Lifetime.PROCESS)
"""Code of functions whose callees are all the compiler's. No set: code of residual programs has no hash."""


def ends_at(code: CodeType) -> None:
    """Hide the callees of a function of nbcompile: they are part of the compiler."""
    _COMPILING.append(code)


def hide_ours(error: BaseException) -> None:
    """Remove the compiler's frames, and torch's chain of exceptions of an operator that fails during tracing."""
    if config.verbose:
        return
    if isinstance(error, errors.TorchRuntimeError):
        error.__cause__ = None  # its text is in the message; `inner_exception` is the exception itself
    shown = None
    for entry in reversed(list(_users(error.__traceback__))):
        entry.tb_next = shown
        shown = entry
    error.__traceback__ = shown


def may_be_handled() -> bool:
    """True if a caller that runs in Python, below a compiled function, is inside of a ``try`` or ``with``.

    What the compiler raises here would reach its handlers; those outside of the compiled function expect that.
    """
    handled = pending = False
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(_WRAPPERS):
            handled = handled or pending
        elif not code.co_filename.startswith(_OURS):
            pending = pending or any(row.start <= frame.f_lasti < row.end for row in exception_table(code))
        frame = frame.f_back  # type: ignore[assignment]
    return handled


def _users(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        code = trace.tb_frame.f_code
        if any(code is each for each in _COMPILING):
            return
        if not code.co_filename.startswith(_OURS):
            yield trace
        trace = trace.tb_next
