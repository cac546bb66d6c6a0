"""Lifetimes of cache entries: none is freed while C may read it.

C walks the entries of a code object with plain pointers: to the list, to an entry, to the tree of its guards. To
evaluate a guard it lets other threads run, and guards run Python; so does the compiler, which is called while C holds
the same pointers. An entry that is removed during that (by ``reset``, or because an object that a guard compares by
identity was freed) is unlinked at once, and freed when no call has the hook on any more.

    inside = INSIDE          a call turns the hook on: while it does, it refers to this object
    keep(holder)             another thread unlinks an entry: it is not freed yet
    inside = None            the call ends
    release()                no call refers to INSIDE: the entry is freed

To count references costs a call nothing, and an interrupt at any moment leaves the count right.

In torch: nothing; there a reset in one thread ends the process if another is in a call. Read next:
nbcompile/dispatch/cache.py
"""

from __future__ import annotations

import itertools
import operator
import sys
from collections.abc import Callable, Iterator, Sized
from types import CodeType
from weakref import ReferenceType, ref

from nbcompile.support.process_state import STATE, Lifetime
from nbcompile.torch_internals import eval_frame

INSIDE = object()
"""Object that each running call refers to. It is read from this module alone: another name would be a reference."""
pending: list[None] = STATE.add("dispatch.lifetimes.pending", [], Lifetime.TASK)
"""Marker: not empty while an unlinked object waits for the end of running calls."""

# The number of references to INSIDE is the number of running calls, plus a constant. Reading it is one call of
# C functions, between which no other thread can run.
_references = map(sys.getrefcount, itertools.repeat(INSIDE))
_quiet = next(_references)
_idle: Iterator[bool] = STATE.add("dispatch.lifetimes._idle", map(_quiet.__eq__, _references), Lifetime.TASK)
"""Iterator whose every ``next`` evaluates it again."""
_action: Iterator[Callable[[CodeType], object]] = map((id, eval_frame.reset_code).__getitem__, _idle)

_kept: list[object] = STATE.add("dispatch.lifetimes._kept", [], Lifetime.TASK)
_states: list[tuple[ReferenceType[CodeType], Sized]] = STATE.add("dispatch.lifetimes._states", [], Lifetime.TASK)


def keep(*things: object) -> None:
    """Keep unlinked objects alive, for running calls that may still read them."""
    _kept.extend(things)
    pending.append(None)


def free_state(code: CodeType, living: Sized) -> None:
    """Free what C keeps for a code object: now, or when no call has the hook on.

    Args:
        code: the owner of the state.
        living: empty while no entry of it is in use. It is freed only then, which runs no Python code.
    """
    _states.append((ref(code), living))
    pending.append(None)
    release()


def is_idle() -> bool:
    """Return whether no thread is inside a call of a compiled function."""
    return next(_idle)


def release() -> None:
    """Free what was unlinked, unless a call has the hook on."""
    pending.clear()
    # Copied first: an object that is added while this runs waits for the next release.
    kept, states = _kept[:], _states[:]
    if not is_idle():
        pending.append(None)
        return
    del _kept[: len(kept)], _states[: len(states)]
    for reference, living in states:
        code = reference()
        if code is not None:
            _free(code, living)


def _free(code: CodeType, living: Sized) -> None:
    # The test and the action are one call of a C function, so that no other thread can run in between.
    act = map(operator.call, _action, (code,))
    if not living:
        next(act)
