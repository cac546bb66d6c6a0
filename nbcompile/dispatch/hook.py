"""The frame hook: it intercepts calls, and runs the code that was compiled for them.

CPython calls the hook before it evaluates a frame (PEP 523). torch's C extension
searches the cache entries of the code object: the first entry of our backend
whose guards hold runs instead of the frame. Only the guard on the state of the
process is Python code. If no entry holds, C calls :meth:`FrameCallback.__call__`.

    callback = FrameCallback(compile_frame, backend)
    callback.call(f, (x,), {})      miss: compile_frame(Frame) -> CompiledFrame, cached and run
    callback.call(f, (x,), {})      hit:  guards in C++, then the residual program
    f(x) from the third call on     no hook: fast/call_path.py evaluates the guards as instructions in C, and calls the
    residual program; this file is the slow path, for calls whose guards fail

The hook is set per thread. It is off while guards run and while a frame is
compiled. The hook that was set before (none, or that of a real torch.compile) is
always restored.

In torch: torch/_dynamo/eval_frame.py (set_eval_frame, _TorchDynamoContext) and
torch/csrc/dynamo/eval_frame_cpp.cpp. Read next: nbcompile/dispatch/cache.py
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import CellType, CodeType
from typing import Protocol, TypeVar, assert_never, cast
from weakref import WeakValueDictionary

from nbcompile import config, errors
from nbcompile.capture.compiled import CompiledFrame
from nbcompile.capture.frame import Frame
from nbcompile.dispatch import cache, lifetimes, skipping, tracebacks
from nbcompile.dispatch.lifetimes import pending
from nbcompile.record.profile import FRAME
from nbcompile.support import created_caches
from nbcompile.support.process_state import STATE, Lifetime
from nbcompile.torch_internals import OUR_REGION, eval_frame, get_region, members, modes as torch_modes, set_region

Result = TypeVar("Result")

_set_hook = cast("Callable[[object], object]", eval_frame.set_eval_frame)  # typed in torch for its own callback
current = _get_hook = eval_frame.get_eval_frame_callback
_Action = eval_frame._FrameAction
_Strategy = eval_frame._FrameExecStrategy


@dataclass(frozen=True, slots=True)
class SkipFrame:
    """Run this call eagerly; the hook still sees the functions that it calls."""

    reason: str
    code_wide: bool = False
    """Skip this code object: the hook is not called for it again."""
    nested: bool = False
    """Skip the functions that this call calls, too."""


@dataclass(frozen=True, slots=True)
class RunOnly:
    """The recompile limit is reached: existing entries are used, and nothing more is compiled.

    This holds for every later call of the code, and for the functions that it calls.
    """

    reason: str


Outcome = CompiledFrame | SkipFrame | RunOnly
CompileFrame = Callable[[Frame], Outcome]


class BackendKey:
    """Key of a backend: wrappers with equal backends share cache entries.

    A separate class, so that a real torch.compile with the same backend
    function never runs one of our entries, nor do we run one of its.
    """

    __slots__ = ("__weakref__", "backend")

    def __init__(self, backend: object) -> None:
        self.backend = backend

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BackendKey) and self.backend == other.backend

    def __hash__(self) -> int:
        return hash(self.backend)

    def __repr__(self) -> str:
        return f"BackendKey({self.backend!r})"


class IsolatedBackendKey(BackendKey):
    """Key of a wrapper that shares no entries: equal only to itself. Used where torch has no regions (before 2.13)."""

    __slots__ = ("region",)

    region: int

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


_keys: WeakValueDictionary[BackendKey, BackendKey] = STATE.add(
    "dispatch.hook._keys", WeakValueDictionary(), Lifetime.OWNER
)


def backend_key(backend: object) -> BackendKey:
    """The key of a backend: equal backends share one object, since C compares only addresses."""
    key = BackendKey(backend)
    try:
        return _keys.setdefault(key, key)
    except TypeError:  # an unhashable backend is compared with == at every look-up
        return key


_own_regions = STATE.add("dispatch.hook._own_regions", itertools.count(OUR_REGION + 1), Lifetime.PROCESS)


class FrameCallback:
    """The hook of one ``compile`` wrapper."""

    # The C side finds the key of the cache under the first name.
    __slots__ = ("_torchdynamo_orig_backend", "compile_frame", "key", "region")

    def __init__(self, compile_frame: CompileFrame, backend: object, isolated: bool = False) -> None:
        self.region = next(_own_regions) if isolated else OUR_REGION
        self.compile_frame = compile_frame
        self.key = backend if isinstance(backend, BackendKey) else backend_key(backend)
        if isinstance(self.key, IsolatedBackendKey):
            self.key.region = self.region
        self._torchdynamo_orig_backend = self.key

    def call(
        self, function: Callable[..., Result], arguments: tuple[object, ...], keywords: Mapping[str, object]
    ) -> Result:
        """Call with the hook on. The prior hook is restored afterwards, also after Ctrl-C at any instruction."""
        # Read first: an interrupt between here and ``try`` has nothing to undo. A frame counts as inside while it
        # refers to INSIDE (lifetimes.py).
        prior, prior_region, inside = _get_hook(), get_region(), lifetimes.INSIDE
        try:
            set_region(self.region)
            _set_hook(self)
            return function(*arguments, **keywords)
        finally:  # an interrupt may come after the call: the rest has its own ``finally``
            try:
                _set_hook(prior)
            finally:
                inside = None  # noqa: F841
                set_region(prior_region)
            if pending:
                lifetimes.release()

    def __call__(self, frame: _CaughtFrame, first_entry: object, state: dict[object, object]) -> _CallbackResult:
        """Compile a call that no entry matches: C calls this with the hook off, and propagates exceptions."""
        code = frame.f_code
        # Checks of the code are cheap, and come before those of the values: this runs for each frame that no entry
        # matches.
        if (member := members.replaced_member()) is not None:
            cache.note_skip(code, _replaced(member))
            return _CallbackResult(_SKIP)
        if skipping.imports_modules(code):
            cache.note_skip(code, "the frame imports a module")
            return _CallbackResult(_SKIP_NESTED, code_wide=True)
        # The locals are copied into a dict only now, since for most frames the code is enough to skip them.
        caught = as_frame(frame)
        if (reason := _skip_code_wide(caught)) is not None:
            cache.note_skip(code, reason)
            return _CallbackResult(_SKIP, code_wide=True)
        if created_caches.creates_cache(code, caught.globals):
            created_caches.note_creation(caught.locals)
            cache.note_skip(code, "the frame creates a cache of functools")
            return _CallbackResult(_SKIP)
        if (reason := skipping.frame_skip_reason(caught, _caller())) is not None:
            cache.note_skip(code, reason)
            return _CallbackResult(_SKIP, code_wide=reason is skipping.NO_TENSORS and cache.never_had_tensors(code))
        attempts = cache.state(code).attempts
        # Other threads wait here. Once the lock is free, the entry may exist, although C did not find it before.
        with _compiling:
            if cache.state(code).attempts != attempts and cache.accepts(caught, self.key):
                # Another thread compiled it while this one waited: run eagerly, once.
                return _CallbackResult(_SKIP_NESTED)
            modes = torch_modes.modes()
            try:
                return _callback_result(code, self.compile_frame(caught))
            # An interrupted tracer has entered modes of torch: leave them, since this thread continues.
            except BaseException as error:  # Ctrl-C, or an exception of another signal handler
                torch_modes.restore_modes(modes)
                if isinstance(error, errors.NbcompileError) and not config.verbose:
                    error.__traceback__ = None  # the compiler's own frames do not help a user
                raise


tracebacks.ends_at(FrameCallback.__call__.__code__)


def _replaced(member: str) -> str:
    """Reason why nothing is compiled while a member of torch.Tensor or a builtin is replaced; warns once for each."""
    text = f"{member} is replaced, and the compiler itself relies on it: nothing is compiled until it is put back"
    if member not in _replaced_members:
        _replaced_members.add(member)
        try:
            warnings.warn(text, errors.ReplacedMemberWarning, stacklevel=3)
        except Warning:  # the user's filters convert warnings to errors
            raise
        except Exception:  # noqa: BLE001, S110 - Python's own warnings rely on builtins too
            pass
    return text


_replaced_members: set[str] = STATE.add("dispatch.hook._replaced_members", set(), Lifetime.PROCESS)


def is_off() -> bool:
    """Return whether this thread has no hook."""
    return _get_hook() is None


def is_of_other_compiler() -> bool:
    """Return whether the hook of this thread is another compiler's, as torch.compile's: its frames are not ours."""
    hook = _get_hook()
    return callable(hook) and not isinstance(hook, FrameCallback)


@contextmanager
def paused() -> Iterator[None]:
    """Run a block without any hook."""
    prior = _get_hook()
    try:
        _set_hook(None)
        yield
    finally:
        _set_hook(prior)


def skip_code(code: CodeType, *, nested: bool = False) -> None:
    """Skip all frames of this code and, if nested, the functions that they call: for our own wrappers."""
    eval_frame.set_code_exec_strategy(code, _SKIP_NESTED if nested else _SKIP)


def reset_code(code: CodeType) -> None:
    """Remove every entry and every skip of one code object."""
    with _compiling:
        cache.forget(code)


@STATE.on_reset
def reset() -> None:
    """Remove everything that was compiled or skipped in this process; waits for a running compilation."""
    with _compiling:
        cache.reset()


def as_frame(caught: _CaughtFrame) -> Frame:
    """Convert torch's view of an interpreter frame to ours, which has free variables by content and by cell."""
    code = caught.f_code
    closure = tuple(caught.closure or ())
    cells = dict(zip(code.co_freevars, closure, strict=True))
    return Frame(code, dict(caught.f_locals), caught.f_globals, caught.f_builtins, closure, cells, sys.exception())


class _CaughtFrame(Protocol):
    f_code: CodeType
    f_locals: dict[str, object]
    f_globals: dict[str, object]
    f_builtins: dict[str, object]
    closure: tuple[CellType, ...]


_DEFAULT = _Strategy(_Action.DEFAULT, _Action.DEFAULT)
_SKIP = _Strategy(_Action.SKIP, _Action.DEFAULT)
_SKIP_NESTED = _Strategy(_Action.SKIP, _Action.SKIP)
_RUN_ONLY = _Strategy(_Action.RUN_ONLY, _Action.RUN_ONLY)

# One frame is compiled at a time: the tracer and the record are not thread-safe.
_compiling = threading.RLock()


def _renew_lock() -> None:
    """Replace the lock in a forked child: the thread that holds it may not exist there."""
    # A fork does not copy the other threads: a lock that one of them holds would never be released.
    if not _compiling._is_owned():  # type: ignore[attr-defined]
        _compiling._at_fork_reinit()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


@contextmanager
def compiling() -> Iterator[None]:
    """Compile outside of a call, in another thread: calls that must compile wait."""
    with _compiling:
        yield


@contextmanager
def not_compiling() -> Iterator[None]:
    """Inside of :func:`compiling`: let these calls continue."""
    _compiling.release()
    try:
        yield
    finally:
        _compiling.acquire()


class _CallbackResult:
    """Result of the callback, for C: a new cache entry, or the way to run frames of this code."""

    __slots__ = ("apply_to_code", "frame_exec_strategy", "guarded_code")

    def __init__(self, strategy: object, code_wide: bool = False, entry: _Entry | None = None) -> None:
        self.frame_exec_strategy = strategy
        self.apply_to_code = code_wide
        self.guarded_code = entry


class _Entry:
    """A cache entry as C reads it."""

    __slots__ = ("code", "compile_id", "guard_manager", "trace_annotation")

    def __init__(self, compiled: CompiledFrame, code: CodeType) -> None:
        self.code = compiled.code
        self.compile_id = compiled.compile_id
        self.trace_annotation = FRAME + compiled.compile_id
        self.guard_manager = cache.Holder(compiled, code)


def _callback_result(code: CodeType, outcome: Outcome) -> _CallbackResult:
    match outcome:
        case CompiledFrame():
            return _CallbackResult(_DEFAULT, entry=_Entry(outcome, code))
        case SkipFrame(reason, code_wide, nested):
            cache.note_skip(code, reason)
            return _CallbackResult(_SKIP_NESTED if nested else _SKIP, code_wide)
        case RunOnly(reason):
            cache.note_skip(code, reason)
            cache.state(code).is_complete = True
            return _CallbackResult(_RUN_ONLY, code_wide=True)
        case _:
            assert_never(outcome)


def _caller() -> CodeType | None:
    """The code that called the caught frame (which does not run yet, so its caller is the caller of ``__call__``)."""
    below = sys._getframe(1).f_back
    return None if below is None else below.f_code


def _skip_code_wide(frame: Frame) -> str | None:
    reason = skipping.code_skip_reason(frame.code)
    return None if reason is not None and skipping.module_forward_with_hooks(frame) else reason
