"""Fallback to eager for a frame that is not compiled: with the reason, or with the compiler's error.

    breaks.Unsupported        the graph breaks where no resume function can begin: the frame is skipped, with a warning
    recompile limit           the entries that exist are used, nothing is compiled any more
    an internal error         the frame is skipped, with a warning that says so

In torch: ConvertFrame in torch/_dynamo/convert_frame.py. Read next: nbcompile/tracing/breaks.py
"""

from __future__ import annotations

import gc
import traceback
from dataclasses import replace

from nbcompile import config, errors, hooks, torch_internals
from nbcompile.capture.frame import Frame
from nbcompile.dispatch import cache, tracebacks
from nbcompile.dispatch.hook import Outcome, RunOnly, SkipFrame
from nbcompile.guarding import check as guarding
from nbcompile.options import Options
from nbcompile.record import model, recorder
from nbcompile.recording import compile_log
from nbcompile.recording.observer import FrameObserver, observing
from nbcompile.support import fuel, users_line
from nbcompile.torch_internals import interrupts
from nbcompile.tracing import breaks
from nbcompile.tracing.exceptions import ComptimeError
from nbcompile.tracing.frame.break_planning import break_report

IN_TRANSFORM = SkipFrame("a transform of torch.func is active", code_wide=False)
"""The outcome of a call below ``torch.func.vmap`` and its like."""


def not_compiled(frame: Frame, options: Options, failed: tuple[model.FailedGuard, ...]) -> Outcome | None:
    """The outcome of a call that is not to be compiled at all; None if it may be.

    Raises:
        errors.RecompileError: it would be compiled again, and ``config.error_on_recompile`` is set.
    """
    limit = cache.limit_reached(frame, options.recompile_limit)
    # Entries of functions that are defined again are in reference cycles: after a collection they do not count.
    if limit is not None:
        gc.collect()  # entries whose functions were defined again may be waiting for that
        limit = cache.limit_reached(frame, options.recompile_limit)
    if limit is not None:
        return _limit_reached(frame, options, limit, failed)
    if failed and config.error_on_recompile:
        raise errors.RecompileError(frame.code, failed)
    location = f"{frame.code.co_filename}:{frame.code.co_firstlineno}"
    if not fuel.allows("frame", f"{frame.code.co_name} ({location})"):
        return SkipFrame("bisection: the frame runs as Python", code_wide=False)
    return None


def outcome_of(frame: Frame, options: Options, observer: FrameObserver, error: Exception) -> Outcome:
    """The outcome of a call whose compilation failed; or the error that the call raises."""
    # What a signal handler of the program raised meanwhile (Ctrl-C, a time limit) is raised as it is, and not taken for
    # an error of the compiler.
    interrupts.release()
    interrupts.pass_on(error)
    # From what is no error at all to what is a mistake of the compiler:
    #     nothing to compile; a break              the frame runs as Python
    #     an error with the user's or a backend's  raised, unless errors are suppressed
    #     anything else                            a warning, and the frame runs as Python
    match error:
        case breaks.SkipFrame(guards=guards, assumed=assumed):
            if guards is not None:
                hooks.active().store_skipped(frame, options, error.reason, guards, assumed)
            return _skipped(observer, error.reason)
        case breaks.Unsupported():
            return _cannot_compile(options, observer, error)
        case errors.NbcompileError():
            obstacle = getattr(error, "obstacle", None)
            if isinstance(obstacle, breaks.Unsupported):
                observer.broke((break_report(obstacle),))
            if config.suppress_errors and not options.fullgraph:
                return _suppressed(frame, observer, error)
            if isinstance(error, errors.TorchRuntimeError) and tracebacks.may_be_handled():
                # The handler is to see the operator's own error; other inputs may have none.
                return replace(_skipped(observer, "an operator fails, which a caller may handle"), code_wide=False)
            raise error
        case guarding.GuardsDoNotHold() if error.is_broken_promise:
            return _promise_broken(observer, error)
        case ComptimeError():
            raise error.error
        case RecursionError():
            # How deep the stack is differs from call to call, so only this call, and what it calls, is skipped.
            return replace(_skipped(observer, "Python's stack is too deep to trace"), code_wide=False, nested=True)
    if torch_internals.is_constraint_violation(error):
        raise error  # the user's own promise does not hold
    return _internal_error(frame, options, observer, error)


def _limit_reached(
    frame: Frame, options: Options, limit: tuple[str, int], failed: tuple[model.FailedGuard, ...]
) -> Outcome:
    """No entry may be added any more: those that exist are used, other calls run eagerly."""
    text = cache.limit_warning(frame.code, limit, failed)
    with observing(frame, f"{cache.state(frame.code).number}/-") as observer:
        observer.called(options, failed, limit)
        observer.runs_eagerly(f"{limit[0]} ({limit[1]}) reached")
        if options.fullgraph or config.fail_on_recompile_limit_hit:
            raise errors.FailOnRecompileLimitHit(text, fullgraph=options.fullgraph)
    users_line.warn(text, errors.RecompileLimitWarning)
    return RunOnly(text)


def _skipped(observer: FrameObserver, reason: str) -> SkipFrame:
    observer.runs_eagerly(reason)
    # Skipped for good: the next call would fail in the same way, after the same work.
    return SkipFrame(reason, code_wide=True)


def _promise_broken(observer: FrameObserver, error: guarding.GuardsDoNotHold) -> Outcome:
    """Skip a call that violates an assertion of the program on a size: in eager mode the program raises by itself."""
    reason = f"this call breaks a promise of the program: {error.failed.reason if error.failed else ''}"
    observer.runs_eagerly(reason)
    return SkipFrame(reason)


def _cannot_compile(options: Options, observer: FrameObserver, error: breaks.Unsupported) -> Outcome:
    is_error = options.fullgraph or error.is_final
    failures = (error.cause, error) if error.cause else (error,)
    # The first break, and the obstacle to resuming after it: the user needs both.
    reports = [break_report(error, "error" if is_error else "skip") for error in failures]
    observer.broke(reports)
    if is_error:
        why = "with fullgraph=True" if options.fullgraph else "here (error_on_graph_break)"
        observer.raises(f"{reports[0].title.rstrip('.')}; {why} a graph break is an error")
        compile_log.warn_of_breaks(reports)
        raise errors.Unsupported(reports[0], config.verbose) from (error if config.verbose else None)
    compile_log.log_breaks(reports, observer.compile_id, is_skipped=True)
    # An error that is kept, by a traceback or the record, must not keep the tensors of the call alive.
    error.forget_values()
    skipped = _skipped(observer, f"graph break: {error.kind.title}")
    # Stack depth varies by call: do not skip the code object for good; what it calls has less stack left.
    return replace(skipped, code_wide=False, nested=True) if error.kind is breaks.RECURSION else skipped


def _suppressed(frame: Frame, observer: FrameObserver, error: Exception) -> Outcome:
    code = frame.code
    fails_anyway = isinstance(error, errors.TorchRuntimeError) and not error.lacks_fake_rule
    # What fails in eager mode, too, is reported there, and in the picture.
    if not (fails_anyway and recorder.shows_breaks()):
        users_line.warn(
            f"WON'T CONVERT {code.co_name} {code.co_filename} line {code.co_firstlineno} due to:\n{error}",
            errors.SuppressedErrorWarning,
        )
    if fails_anyway:
        return _skipped(observer, "an operator fails on its inputs, whatever runs it")
    if isinstance(error, errors.TorchRuntimeError):
        return _skipped(observer, "a custom operator has no function for fake tensors (register_fake)")
    return _skipped(observer, f"{type(error).__name__} (config.suppress_errors)")


def _internal_error(frame: Frame, options: Options, observer: FrameObserver, error: Exception) -> Outcome:
    """Skip a frame after an internal error: the function still runs, uncompiled, with a warning."""
    internal = errors.InternalError(frame.code, error)
    observer.runs_eagerly(f"internal error of nbcompile: {type(error).__name__}: {error}", "failed")
    if options.fullgraph or config.verbose:
        raise internal from error
    last = "".join(traceback.format_exception(error)[-3:])
    users_line.warn(f"{internal}\n{last}", errors.InternalErrorWarning)
    return SkipFrame(str(internal), code_wide=True)
