"""Attempt: a run of an answer that ends with an outcome or a rejection, whatever the answer does.

    with limited(20):                 an endless loop is interrupted after 20 seconds
        attempt(f, arguments)         Outcome(result, printed text, the arguments afterwards)

Ctrl-C is not caught: it ends the cell, as everywhere.

In torch: nothing. Read next: nbcompile/teach/comparison.py
"""

from __future__ import annotations

import ctypes
import io
import itertools
import linecache
import signal
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any

import torch

import nbcompile
from nbcompile import api, config
from nbcompile.eval_frame.compiled_module import CompiledModule
from nbcompile.record.model import Record
from nbcompile.support import wrappers
from nbcompile.support.process_state import STATE, Lifetime

SECONDS = 30.0
"""Time limit of one check."""
REPEAT_SECONDS = 0.2
"""Interval after which the exception of the time limit is raised again, if the answer caught it."""


_numbers = STATE.add("teach.attempt._numbers", itertools.count(), Lifetime.PROCESS)


class Rejection(Exception):
    """Rejection of an answer, with the reason."""

    def __init__(self, says: str, record: Record | None = None) -> None:
        super().__init__(says)
        self.record = record


class TimeLimitExceeded(BaseException):
    """Error at the time limit of a check; no ``Exception``, so that an answer's handlers do not catch it."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise :class:`TimeLimitExceeded` in this thread when the time is over."""
    # Python runs handlers of signals in the main thread only; in another thread the exception is set from outside.
    if threading.current_thread() is threading.main_thread():
        before = signal.signal(signal.SIGALRM, _time_is_over)
        signal.setitimer(signal.ITIMER_REAL, seconds, REPEAT_SECONDS)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        return
    timer = threading.Timer(seconds, _raise_in, [threading.get_ident()])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _time_is_over(number: int, frame: object) -> None:
    raise TimeLimitExceeded


def _raise_in(thread: int) -> None:
    # It is raised between two bytecode instructions: a call into C that does not return is not interrupted.
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(TimeLimitExceeded))


def expect_function(answer: object, name: str) -> types.FunctionType:
    """The answer as a Python function that is not compiled yet.

    Raises:
        Rejection: the answer is no such function.
    """
    if is_compiled(answer):
        raise Rejection(f"`{name}` is compiled already. Leave out the call of `compile`: the check compiles it itself.")
    if isinstance(answer, type) or not isinstance(answer, types.FunctionType):
        raise Rejection(f"expected a function `{name}`, got {kind_of(answer)}.")
    if any(map(_uses_compiler, _reached(answer, []))):
        raise Rejection(f"`{name}` uses a compiler itself. Write it as plain PyTorch: the check compiles it.")
    return answer


def _reached(function: types.FunctionType, seen: list[types.FunctionType]) -> list[types.FunctionType]:
    """A function, and the functions of the same notebook or file that it refers to."""
    if all(function is not known for known in seen):
        seen.append(function)
        for value in _named_values(function):
            if isinstance(value, types.FunctionType) and value.__globals__ is function.__globals__:
                _reached(value, seen)
    return seen


def _named_values(function: types.FunctionType) -> list[Any]:
    """Values of the global and closure variables that a function, and the functions in it, read."""
    cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    return [*cells, *(function.__globals__.get(word) for code in _codes(function.__code__) for word in code.co_names)]


def _codes(code: types.CodeType) -> list[types.CodeType]:
    """A code object and those of the functions that are defined in it."""
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return [code, *(found for each in inner for found in _codes(each))]


def _uses_compiler(function: types.FunctionType) -> bool:
    """Return whether a function calls ``compile`` of torch or nbcompile, in any spelling, or a compiled callable."""
    values = _named_values(function)
    if any(value is compiler for value in values for compiler in (torch.compile, nbcompile.compile)):
        return True
    if any(map(is_compiled, values)):
        return True
    modules = [value for value in values if value is torch or value is nbcompile]
    # Constants as well: ``getattr(torch, "compile")``.
    words = {word for code in _codes(function.__code__) for word in (*code.co_names, *code.co_consts) if word.__hash__}
    return "compile" in words and bool(modules or words & {"torch", "nbcompile"})


def is_compiled(value: object) -> bool:
    """Return whether a value is a result of ``torch.compile`` or ``nbcompile.compile``."""
    if isinstance(value, torch.nn.Module):
        return isinstance(value, CompiledModule) or type(value).__name__ == "OptimizedModule"
    return wrappers.is_compiled(value)


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def kind_of(value: object) -> str:
    """A value in words, as in "got ..."."""
    if isinstance(value, type):
        return f"the class `{value.__name__}`"
    return "None" if value is None else f"a value of type `{type(value).__name__}`"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Effects of a call: the value, the printed text, and the arguments afterwards."""

    result: Any
    printed: str
    arguments: tuple[Any, ...]


def attempt(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Outcome:
    """Call a function.

    Raises:
        Rejection: the call raises.
    """
    printed = io.StringIO()
    try:
        with redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(*arguments)
    except Exception as error:
        raise Rejection(f"it raises {type(error).__name__}: {_first_line(error)}{_where(error)}") from error
    return Outcome(result, printed.getvalue(), arguments)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["without a message"])[0]


def _where(error: Exception) -> str:
    """The line of the answer, if it is known."""
    trace, line = error.__traceback__, 0
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(("<exercise", "<ipython")) or "ipykernel" in file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f" (line {line})" if line else ""


def trace(
    function: Callable[..., Any], calls: list[tuple[Any, ...]], backend: Any = "eager", **settings: Any
) -> Record:
    """The record of some calls of a function, which is compiled only for them.

    Raises:
        Rejection: a call raises, though it does not in eager mode.
    """
    compiled = api.compile(function, backend=backend, isolate_recompiles=True)
    frame_recorder = api.new_recorder(getattr(function, "__name__", "f"))
    with config.patch(warm_start=False, **settings), api.listening(frame_recorder):
        for arguments in calls:
            attempt(compiled, arguments)
    return frame_recorder.record()


def renewed(function: types.FunctionType) -> types.FunctionType:
    """A copy of a function without compiler state (such as dynamic sizes), at the same lines of another file.

    Otherwise sizes that varied in an earlier check would be symbols from the first call on.
    """
    file = f"<exercise copy {next(_numbers)}>"
    lines = linecache.getlines(function.__code__.co_filename)
    linecache.cache[file] = (0, None, lines, file)
    code = function.__code__.replace(co_filename=file)
    copied = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copied.__kwdefaults__ = function.__kwdefaults__
    return copied
