"""Calls of a compiled function under another stance than the default one.

    force_eager              as if it had never been compiled
    eager_on_recompile       what is compiled is used; nothing new is compiled
    fail_on_recompile        something new to compile is an error
    eager_then_compile       the first call of each function runs eagerly
    aot_eager_then_compile   the first call goes through the backend "aot_eager"

A stance decides what the frame hook does with a call that no cache entry accepts.

In torch: _callback_from_stance in torch/_dynamo/eval_frame.py. Read next:
nbcompile/eval_frame/first_call.py
"""

from __future__ import annotations

from dataclasses import replace
from types import CodeType

from nbcompile import errors, stance as process_stance, torch_internals
from nbcompile.capture.frame import Frame
from nbcompile.capture.source import LocalSource
from nbcompile.dispatch import cache, observed_values
from nbcompile.dispatch.hook import BackendKey, FrameCallback, IsolatedBackendKey, Outcome, SkipFrame, backend_key
from nbcompile.eval_frame import first_call
from nbcompile.options import Options
from nbcompile.support.process_state import STATE, Lifetime
from nbcompile.support.weak_identity_dict import WeakIdentityDict

_seen: WeakIdentityDict[CodeType, bool] = STATE.add("eval_frame.stances._seen", WeakIdentityDict(), Lifetime.PROCESS)
"""The functions that ran once under a stance ``..._then_compile``; ``reset()`` does not forget them, as in torch."""


def callback(options: Options, stance: process_stance.Stance, code: CodeType | None) -> FrameCallback:
    """The hook for a call of a compiled function under a stance.

    Raises:
        errors.NbcompileError: a name that is no stance (torch's own function takes any).
    """
    name, backend = stance
    if name == "default":
        forced = options if backend is None else replace(options, backend=backend)
        return compiling(forced)
    # The other stances look for entries under the key of the default stance.
    key = _shared_by(options)
    match name:
        case "skip_guard_eval_unsafe":
            return FrameCallback(lambda frame: _not_warmed_up(frame, key), key)
        case "eager_on_recompile":
            return FrameCallback(lambda _: SkipFrame("the stance is eager_on_recompile"), key)
        case "fail_on_recompile":
            return FrameCallback(lambda frame: _fail_on_recompile(frame, key), key)
        case "eager_then_compile":
            return FrameCallback(lambda frame: _eager_first(frame, options, key), key)
        case "aot_eager_then_compile":
            first = code is None or not _seen.get(code, False)
            if code is not None:
                _seen[code] = True
            return compiling(replace(options, backend="aot_eager", mode=None) if first else options)
    raise errors.InvalidStance(name, process_stance.STANCES)


def compiling(options: Options) -> FrameCallback:
    """Hook of the default stance: a call that no entry accepts is compiled."""
    key = _shared_by(options)
    if options.isolate_recompiles and not torch_internals.HAS_REGIONS:
        key = IsolatedBackendKey(key.backend)
    return FrameCallback(
        lambda frame: first_call.compile_frame(frame, options, key), key, isolated=options.isolate_recompiles
    )


def _shared_by(options: Options) -> BackendKey:
    """Cache key of a wrapper: the backend, its mode and its options. Wrappers with equal keys share entries."""
    chosen = tuple(sorted(options.backend_options.items()))
    if options.mode not in (None, "default"):
        chosen = (*chosen, ("mode", options.mode))
    # Options are part of the key, since they change what a backend compiles.
    return backend_key((options.backend, chosen) if chosen else options.backend)


def _not_warmed_up(frame: Frame, key: BackendKey) -> Outcome:
    raise errors.NotWarmedUp(frame.code, cache.failures(frame.code, frame.scope(), key))


def _fail_on_recompile(frame: Frame, key: BackendKey) -> Outcome:
    raise errors.FailOnRecompile(frame.code, cache.failures(frame.code, frame.scope(), key))


def _eager_first(frame: Frame, options: Options, key: BackendKey) -> Outcome:
    if _seen.get(frame.code, False):
        return first_call.compile_frame(frame, options, key)
    _seen[frame.code] = True
    # The second call is compared with this one: what differs becomes symbolic at once.
    observed_values.note(frame, (), [LocalSource(name) for name in frame.locals if name not in frame.code.co_freevars])
    return SkipFrame("the first call under the stance eager_then_compile")
