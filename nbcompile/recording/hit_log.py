"""A log of the cache entries that calls of compiled functions hit, kept while a recorder listens.

    f(ones(3))      compiled 0/0
    f(ones(3))      0/0 hit              hits leave no trace in Python: torch's C code finds the entry and runs it.
    f(ones(4))      compiled 0/1         So the guards are evaluated before the call, and the list is read after it:
    f(ones(9))      0/1 hit              the entry that was hit is first.

In torch: nothing; hits are not logged. Read next: nbcompile/views/recompilations.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any

from nbcompile.dispatch import cache, hook
from nbcompile.record import recorder
from nbcompile.record.model import Call
from nbcompile.recording.call_scope import scope_of

# The list object, not its truth value now: a recorder may become active later.
listeners = recorder.watching


def logged(call: Callable[..., Any], entry: Callable[..., Any], arguments: Any, keywords: Any) -> Any:
    """Call a function through the compiler, and log the entry that ran."""
    code = _code_of(entry)
    if code is None:
        return call(entry, arguments, keywords)
    with hook.paused():  # the caller may be a compiled function: the hook must not compile the code below
        attempts, accepting = cache.state(code).attempts, _accepting(code, entry, arguments, keywords)
    try:
        return call(entry, arguments, keywords)
    finally:
        with hook.paused():
            recorder.note_call(_outcome(code, _name_of(entry, code), attempts, accepting))


def _outcome(code: CodeType, name: str, attempts: int, accepting: set[str]) -> Call:
    front = next((each.compile_id for each in cache.entries(code)), "")
    state = cache.state(code)
    compiled = state.attempts > attempts
    number = "" if state.number is None else str(state.number)
    # The cache moves the entry that ran to the front. It ran in this call if it was compiled now, or
    # if its guards held.
    ran = front if compiled or front in accepting else ""
    return Call(number, ran, compiled, function=name, reason="" if ran else state.skip_reason)


def _code_of(entry: Callable[..., Any]) -> CodeType | None:
    """Code of the first frame that the hook gets: the function's own, or that of a module's forward."""
    code = getattr(entry, "__code__", None) or getattr(getattr(type(entry), "forward", None), "__code__", None)
    return code if isinstance(code, CodeType) else None


def _name_of(entry: Callable[..., Any], code: CodeType) -> str:
    """The function's own name, or the class of a module that is called."""
    return code.co_name if hasattr(entry, "__code__") else type(entry).__name__


def _accepting(
    code: CodeType, entry: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> set[str]:
    """The entries whose guards hold for a call."""
    try:
        scope = scope_of(code, entry, arguments, keywords)
    except (TypeError, ValueError):  # wrong arguments of the call, or an unbound variable of the closure
        return set()
    return {each.compile_id for each in cache.entries(code) if each.check.holds(scope)}
