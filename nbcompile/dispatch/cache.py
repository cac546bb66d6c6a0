"""Cache of a code object: its number, its cache entries, and the limits on them.

The entries belong to the code object (torch's C extension has the list, last used
first), so they are freed with it, for example when a notebook cell runs again.
This module reads that list and adds the accounting.

    f(ones(3))     number 0, attempt 0   -> "0/0", x is (3,)
    f(ones(4))     entry "0/0" fails: tensor 'x' size mismatch ... expected 3, actual 4
                   number 0, attempt 1   -> "0/1"

In torch: torch/_dynamo/cache_size.py (limits), convert_frame.py (compile ids). Read next:
nbcompile/dispatch/observed_values.py
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any, Protocol
from weakref import ReferenceType, ref

import torch

from nbcompile import config
from nbcompile.capture.compiled import CompiledFrame
from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.resolution import Scope
from nbcompile.capture.source import LocalSource
from nbcompile.dispatch import lifetimes
from nbcompile.dispatch.observed_values import forget_observed
from nbcompile.record.model import FailedGuard
from nbcompile.support.process_state import STATE, Lifetime
from nbcompile.torch_internals import artifact_logger, cache_entries

TROUBLESHOOTING = "https://pytorch.org/docs/main/user_guide/torch_compiler/compile/programming_model.recompilation.html"
RECOMPILES_VERBOSE = artifact_logger("recompiles_verbose")


# -- entries -------------------------------------------------------------------------------------------------------


class Holder:
    """The link from a C cache entry to our data about it.

    The C side reads ``root`` and ``diff_guard_root``, and writes ``cache_entry``
    and ``extra_state`` (its own side of the link; None once the entry is removed).
    """

    cache_entry: Any = None
    extra_state: Any = None
    diff_guard_root = None

    def __init__(self, compiled: CompiledFrame, code: CodeType) -> None:
        self.compiled: CompiledFrame | None = compiled
        self.compile_id = compiled.compile_id
        self.root = compiled.check.root
        self.gone: FailedGuard | None = None
        living, address = state(code).living, id(self)
        self._code, self._living = ref(code), living
        living[address] = ref(self, lambda _: living.pop(address, None))
        watch: Callable[[Callable[[FailedGuard], None]], None] | None = getattr(compiled.check, "watch", None)
        if watch is not None:
            watch(_expiry(ref(self)))

    def expire(self, reason: FailedGuard) -> None:
        """Expire the entry, since an object that a guard compares by identity was freed: it can never match again."""
        if self.gone is None:
            self.gone = replace(reason, compile_id=self.compile_id, guard=f"{self.compile_id}{reason.guard}")
            self.withdraw(_Tombstone(self.compile_id, self.gone))
            lifetimes.release()

    def withdraw(self, stand_in: object) -> None:
        """Invalidate the entry; C gets ``stand_in`` instead. Objects that C may be using stay alive."""
        code = self._code()  # None: the code is being freed, with its entries
        backend = None if self.cache_entry is None else self.cache_entry.backend
        lifetimes.keep(self, self.compiled, backend)
        entry, extra_state = self.cache_entry, self.extra_state
        if code is not None and entry is not None and extra_state is not None:
            extra_state.invalidate(entry, stand_in)
        self.compiled = None
        self._living.pop(id(self), None)
        # Fast calls have copies of entries, and would continue to run this one.
        forget_copies()


class _Copy(Protocol):
    def forget(self) -> object:
        """Stop using any entry."""


_copies: dict[int, ReferenceType[_Copy]] = STATE.add("dispatch.cache._copies", {}, Lifetime.OWNER)
_forgotten = STATE.add("dispatch.cache._forgotten", [object()], Lifetime.RESET)


def add_copy(copy: _Copy) -> None:
    """Register an object that holds copies of cache entries (call_path.py)."""
    address = id(copy)
    _copies[address] = ref(copy, lambda _: _copies.pop(address, None))


def forget_copies() -> None:
    """Invalidate all copies of cache entries, after an entry was removed."""
    # The token changes first: code that is writing a copy now compares it at its end (call_path.py).
    _forgotten[0] = object()
    for reference in list(_copies.values()):
        copy = reference()
        if copy is not None:
            copy.forget()


def last_forgotten() -> object:
    """Token that changes with each :func:`forget_copies`, so that a copy written at the same time is stale."""
    return _forgotten[0]


class _StandIn:
    """Placeholder of a holder in C. Freeing it, or writing to it, runs no Python code."""

    __slots__ = ("cache_entry", "extra_state")
    diff_guard_root = None
    compiled = None


_FORGOTTEN = _StandIn()
"""Placeholder of holders that :func:`forget` invalidated."""


class _Tombstone(_StandIn):
    """Placeholder of a holder whose entry expired, with the reason, for the next recompilation."""

    __slots__ = ("compile_id", "gone")

    def __init__(self, compile_id: str, reason: FailedGuard) -> None:
        self.compile_id = compile_id
        self.gone = reason

    @property
    def is_superseded(self) -> bool:
        """True if a global was freed: the notebook cell that defines it ran again, so the entry cannot match."""
        return self.gone.source.startswith("G[")


def _expiry(holder: ReferenceType[Holder]) -> Callable[[FailedGuard], None]:
    def expire(reason: FailedGuard) -> None:
        alive = holder()
        if alive is not None:
            alive.expire(reason)

    return expire


def entries(code: CodeType) -> tuple[CompiledFrame, ...]:
    """Every entry of a code object that can still match, last used first."""
    return tuple(compiled for holder, _ in _holders(code) if (compiled := holder.compiled) is not None)


def failures(code: CodeType, scope: Scope, key: object = None) -> tuple[FailedGuard, ...]:
    """First guard that fails in each entry for this call, newest entry first.

    ``key`` is the backend key of the call; an entry with another backend key fails
    for that reason.
    """
    holders = list(_holders(code))
    # A notebook cell that ran again created new functions, and no call reaches the entries of the old functions. Only
    # the newest of these entries explains this recompilation.
    superseded = [each for each, _ in holders if isinstance(each, _Tombstone) and each.is_superseded]
    newest = max(superseded, key=_attempt, default=None)  # each of the others was reported when it was the newest
    reported = [each for each in holders if each[0] not in superseded or each[0] is newest]
    found = [_failure(holder, backend_key, scope, key) for holder, backend_key in reported]
    return tuple(failure for failure in found if failure is not None)


def _attempt(holder: Holder | _Tombstone) -> int:
    return int(holder.compile_id.partition("/")[2])


def _lists_every_failure() -> bool:
    """True if all failing guards of an entry are requested, not only the first: all guards must be evaluated."""
    return config.recompiles_verbose or RECOMPILES_VERBOSE.isEnabledFor(logging.DEBUG)


def _failure(holder: Holder | _Tombstone, backend_key: object, scope: Scope, key: object) -> FailedGuard | None:
    compiled = holder.compiled
    if holder.gone is not None or compiled is None:
        return holder.gone
    failed = compiled.check.failure(scope, holder.compile_id)
    if failed is None and key is not None and backend_key != key:
        reason = (
            "BACKEND_MATCH failure: torch.compile detected different backend callables."
            f" Cached backend: {_name_of(backend_key)}. New backend: {_name_of(key)}."
        )
        return FailedGuard(holder.compile_id, reason)
    if failed is not None and _lists_every_failure():
        every = compiled.check.failures(scope, holder.compile_id)
        return replace(failed, others=tuple(each.reason for each in every if each.guard != failed.guard))
    return failed


def entries_of_backend(code: CodeType, key: object) -> list[CompiledFrame]:
    """The valid entries of one backend, last used first."""
    compiled_frames = (each.compiled for each, backend in _holders(code) if backend is key)
    return [compiled for compiled in compiled_frames if compiled is not None]


def accepts(frame: Frame, key: object) -> bool:
    """Return whether a valid entry of a backend matches this call (a cache hit)."""
    return any(each.check.holds(frame.scope()) for each in entries_of_backend(frame.code, key))


def _holders(code: CodeType) -> Iterator[tuple[Holder | _Tombstone, object]]:
    for entry in cache_entries(code):
        if isinstance(entry.guard_manager, Holder | _Tombstone):  # before torch 2.13, the list also has torch's own
            yield entry.guard_manager, entry.backend


def _name_of(key: object) -> str:
    backend = getattr(key, "backend", key)
    if isinstance(backend, tuple):  # with options (eval_frame/stances.py)
        backend, options = backend
        return f"{_name_of(backend)} with options={dict(options)}"
    return getattr(backend, "__qualname__", None) or repr(backend)


_FRAMES_WITHOUT_TENSORS = 8

# -- numbers, attempts and limits --------------------------------------------------------------------------------------


@dataclass(slots=True)
class CodeState:
    """The accounting of one code object."""

    code: ReferenceType[CodeType]
    number: int | None = None
    """The first part of its compile ids, assigned at the first attempt."""
    attempts: int = 0
    skip_reason: str = ""
    """Reason why a frame last fell back to eager."""
    without_tensors: int = 0
    """Number of its frames without tensors."""
    is_complete: bool = False
    """True if no entry will be added: the recompile limit is reached."""
    living: dict[int, ReferenceType[Holder]] = field(default_factory=dict)
    """Entries of the code that are in use, of all regions, by their addresses."""

    def reset(self) -> None:
        """Reset the state to that of code that was never compiled."""
        self.number, self.attempts, self.skip_reason = None, 0, ""
        self.without_tensors = 0
        self.is_complete = False


_numbers = STATE.add("dispatch.cache._numbers", [itertools.count()], Lifetime.RESET)
# By address, not by equality: a notebook cell that runs twice creates two equal code objects.
_states: dict[int, CodeState] = STATE.add("dispatch.cache._states", {}, Lifetime.OWNER)


def state(code: CodeType) -> CodeState:
    """State of a code object, created on first use; it is freed with the code object."""
    known = _states.get(id(code))
    # The address may have belonged to a code object that was freed.
    if known is None or known.code() is not code:
        address = id(code)

        def forget_it(_: object, states: dict[int, CodeState] = _states) -> None:
            gone = states.get(address)
            if gone is not None and gone.code() is None:
                del states[address]

        known = _states[address] = CodeState(ref(code, forget_it))
    return known


def next_compile_id(code: CodeType) -> str:
    """Count an attempt, and return its id; ``"3/1"`` is the second attempt of the fourth code object."""
    known = state(code)
    if known.number is None:
        known.number = next(_numbers[0])
    attempt, known.attempts = known.attempts, known.attempts + 1
    return f"{known.number}/{attempt}"


def note_skip(code: CodeType, reason: str) -> None:
    """Record why a frame of this code ran eagerly."""
    state(code).skip_reason = reason


def never_had_tensors(code: CodeType) -> bool:
    """Count a frame without tensors; return True if the code has had so many that it should be skipped.

    A hook at each call is expensive: torch saves and restores the state of Python's random numbers around it.
    Torch skips the code after the first such frame; here a function whose first calls only set up is still compiled.
    """
    known = state(code)
    known.without_tensors += 1
    return known.without_tensors >= _FRAMES_WITHOUT_TENSORS and not known.living and not known.attempts


def limit_reached(frame: Frame, recompile_limit: int | None = None) -> tuple[str, int] | None:
    """Recompilation limit that is reached for this call: its name in ``config`` and its value; or None."""
    limit = config.recompile_limit if recompile_limit is None else recompile_limit
    accumulated = config.accumulated_recompile_limit
    # An entry that no call can match, since a global was redefined, does not count: a cell may run any number of times.
    kept = [each for each in _holders(frame.code) if not (isinstance(each[0], _Tombstone) and each[0].is_superseded)]
    if len(kept) >= accumulated:
        return "accumulated_recompile_limit", accumulated
    if sum(_about_same_modules(holder, frame) for holder, _ in kept) >= limit:
        return "recompile_limit", limit
    if state(frame.code).attempts >= accumulated:  # attempts whose entries expired count, too
        return "accumulated_recompile_limit", accumulated
    return None


def limit_warning(code: CodeType, limit: tuple[str, int], failed: tuple[FailedGuard, ...]) -> str:
    """Warning for a reached recompilation limit, in torch's words."""
    name, value = limit
    last = f"{failed[0].compile_id}: {failed[0].reason}" if failed else "Unable to find recompilation reasons"
    return (
        f"torch._dynamo hit config.{name} ({value})\n"
        f"   function: '{code.co_name}' ({code.co_filename}:{code.co_firstlineno})\n"
        f"   last reason: {last}\n"
        'To log all recompilation reasons, use TORCH_LOGS="recompiles".\n'
        f"To diagnose recompilation issues, see {TROUBLESHOOTING}"
    )


def _about_same_modules(holder: Holder | _Tombstone, frame: Frame) -> bool:
    # A function with 64 modules whose guards compare by identity has 64 entries without a recompilation: the limit
    # counts entries per module.
    compiled = holder.compiled
    if compiled is None:
        return True
    for guard in compiled.check.guards:
        if guard.kind is GuardKind.ID_MATCH and isinstance(guard.source, LocalSource):
            other = isinstance(guard.expected, torch.nn.Module)
            if other and frame.locals.get(guard.source.name) is not guard.expected:
                return False
    return True


# -- removal ---------------------------------------------------------------------------------------------------------


def known_codes() -> tuple[CodeType, ...]:
    """Every live code object that was compiled or skipped since its last reset."""
    tried = (each for each in list(_states.values()) if each.number is not None or each.skip_reason or each.living)
    return tuple(code for known in tried if (code := known.code()) is not None)


def forget(code: CodeType) -> None:
    """Remove every entry and every skip of one code object (its number stays: ids are never used twice)."""
    known = state(code)
    known.skip_reason, known.without_tensors, known.is_complete = "", 0, False
    for reference in list(known.living.values()):
        holder = reference()
        if holder is not None:
            holder.withdraw(_FORGOTTEN)
    forget_copies()
    lifetimes.free_state(code, known.living)


def reset() -> None:
    """Remove everything; numbers start again at 0."""
    for code in known_codes():
        forget(code)
    forget_copies()
    for known in list(_states.values()):
        known.reset()
    forget_observed()
    _numbers[0] = itertools.count()
