"""The observer of a compile: it writes the record of a frame after each stage.

    with observing(frame, compile_id) as observer:
        observer.traced(trace, attempt)      a recorder is active: writes the graph and the breaks; else builds nothing

Stages do not depend on it. :class:`FrameObserver` logs and counts; :class:`FrameRecord` writes to the draft of the
frame
as well.

In torch: torch/_dynamo/utils.py (CompilationMetrics), torch/_logging/_internal.py (trace_structured). Read next:
nbcompile/record/recorder.py
"""

from __future__ import annotations

import inspect
import linecache
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import CodeType, FunctionType
from typing import cast

import torch

from nbcompile import config
from nbcompile.capture.frame import Frame
from nbcompile.capture.source import expression
from nbcompile.capture.trace import GraphBreak, Trace
from nbcompile.dispatch import cache, observed_values
from nbcompile.guarding import check as guarding
from nbcompile.ir.profiler_ranges import of_frame, stage_range
from nbcompile.observe import compilation_metrics, dynamo_counters, torch_logs
from nbcompile.options import Options
from nbcompile.record import links, model, recorder
from nbcompile.recording import compile_log, entries, frame_links, guard_explorer, recompile_advice
from nbcompile.rewriting import residual as rewriting
from nbcompile.rewriting.resume import resume_info
from nbcompile.tracing import tracer
from nbcompile.tracing.inputs.dynamism import Dynamism

recorder.range_openers.append(stage_range)

GUARD_LATENCY = "one evaluation of the guards"
Failed = tuple[model.FailedGuard, ...]


@contextmanager
def observing(frame: Frame, compile_id: str) -> Iterator[FrameObserver]:
    """Observe the compilation of one frame, for logs and counters, and for the record if one is active."""
    with recorder.frame(compile_id, frame.code.co_name) as draft, of_frame(frame.code, compile_id):
        yield FrameObserver(frame, compile_id) if draft is None else FrameRecord(frame, compile_id, draft)


class FrameObserver:
    """Observer without an active recorder: it only updates the logs and counters of torch.compile."""

    records_steps = False
    """True if each instruction that is traced is recorded."""

    def __init__(self, frame: Frame, compile_id: str) -> None:
        self.frame = frame
        self.compile_id = compile_id
        self.metrics = compilation_metrics.CompilationMetrics(frame.code, compile_id)

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Count and time a compile."""
        dynamo_counters.add("frames", "total")
        with dynamo_counters.timed("frame"), self.metrics.compiling():
            yield
        dynamo_counters.add("frames", "ok")

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage, and show it in profilers."""
        with recorder.stage(name), dynamo_counters.timed(name), self.metrics.stage(name):
            yield

    @contextmanager
    def tracing(self) -> Iterator[tracer.FailedAttempt | None]:
        """Observe a trace; yield an object that collects the progress of a trace that fails."""
        yield None

    def called(self, options: Options, failed: Failed, limit: tuple[str, int] | None = None) -> None:
        """Observe the call; ``failed``: failed guards of existing entries, ``limit``: why it is not compiled."""
        if limit is None:
            code = self.frame.code
            if failed:
                reason = f"{failed[0].compile_id}: {failed[0].reason}"
                self.metrics.note(cache_size=len(failed), accumulated_cache_size=len(failed), recompile_reason=reason)
            location = f"{code.co_filename}:{code.co_firstlineno}"
            torch_logs.recompiled(code.co_name, location, failed, self.compile_id)

    def traced(self, trace: Trace, attempt: tracer.FailedAttempt | None) -> None:
        """Observe that tracing returned."""
        if trace.graph is not None:
            dynamo_counters.count_graph(trace.graph.module)
            self.metrics.note_graph(trace.graph.module)

    def breaks(self, trace: Trace) -> None:
        """The graph was compiled: it is known now that the graph breaks of the trace stay."""
        if isinstance(trace.exit, GraphBreak):
            self.metrics.note_breaks((*trace.exit.earlier, trace.exit.report))
            compile_log.log_breaks((*trace.exit.earlier, trace.exit.report), self.compile_id)

    def guarded(self, options: Options, check: guarding.FrameCheck, trace: Trace) -> None:
        """The guards were compiled."""
        self.metrics.note(guard_count=len(check.prepared))

    def rewritten(self, trace: Trace, residual: rewriting.Residual) -> None:
        """The residual program was built."""
        compile_log.log_side_effects(trace, residual, self.compile_id)
        dynamo_counters.count_resumes(residual.resume_codes)

    def broke(self, reports: Sequence[model.Break]) -> None:
        """Observe the graph breaks that ended the compilation."""

    def runs_eagerly(self, reason: str, status: str = "skipped") -> None:
        """The call runs eagerly."""

    def raises(self, reason: str) -> None:
        """The call raises the compiler's error."""


class FrameRecord(FrameObserver):
    """Observer with an active recorder: it writes all results to the draft of the frame, too."""

    def __init__(self, frame: Frame, compile_id: str, draft: recorder.FrameDraft) -> None:
        super().__init__(frame, compile_id)
        self.draft = draft
        self.records_steps = config.record_steps or recorder.wants_steps()

    def called(self, options: Options, failed: Failed, limit: tuple[str, int] | None = None) -> None:
        """Write the function, its bytecode, its caller, and why no entry accepts the call."""
        super().called(options, failed, limit)
        advised = _advised(self.frame, options, failed)
        if limit is not None:
            advised = tuple(recompile_advice.with_limit(each, *limit) for each in advised)
        _write_call(self.draft, self.frame, advised)

    @contextmanager
    def tracing(self) -> Iterator[tracer.FailedAttempt | None]:
        """Write the progress of tracing if it fails."""
        attempt = tracer.FailedAttempt()
        try:
            yield attempt
        except BaseException:
            # The attempt's tensors may be of a subclass, and describing one must not run its code.
            with torch._C.DisableTorchFunction():
                _write_unfinished(self.draft, attempt)
            raise

    def traced(self, trace: Trace, attempt: tracer.FailedAttempt | None) -> None:
        """Write the captured graph, the breaks, and an operator that failed."""
        super().traced(trace, attempt)
        assert attempt is not None
        with torch._C.DisableTorchFunction():
            _write_trace(self.draft, trace)
            if attempt.failed is not None:
                self.draft.write(failed=entries.failed(attempt.failed, attempt.sources))

    def guarded(self, options: Options, check: guarding.FrameCheck, trace: Trace) -> None:
        """Write the guards, what they depend on, and how long one evaluation takes."""
        super().guarded(options, check, trace)
        draft = self.draft
        draft.write(**guard_explorer.describe(self.frame, options, check, draft.compile_id), symbols=trace.symbols())
        latency = guarding.latency(check, self.frame)
        draft.timings.append(model.Timing(draft.compile_id, GUARD_LATENCY, latency, inside=model.EACH_CALL))

    def rewritten(self, trace: Trace, residual: rewriting.Residual) -> None:
        """Write the residual program and its resume functions."""
        super().rewritten(trace, residual)
        _write_residual(self.draft, trace, residual)

    def broke(self, reports: Sequence[model.Break]) -> None:
        """Write the breaks."""
        self.draft.write(breaks=_numbered(self.draft, tuple(reports)))

    def runs_eagerly(self, reason: str, status: str = "skipped") -> None:
        """Write why."""
        self.draft.write(status=status, instead=model.EAGER, skip_reason=reason)

    def raises(self, reason: str) -> None:
        """Write why."""
        self.draft.write(skip_reason=reason)


def _advised(frame: Frame, options: Options, failed: tuple[model.FailedGuard, ...]) -> tuple[model.FailedGuard, ...]:
    """Add advice to each failed guard; failures that differ only in numbers share one."""
    cached = {each.compile_id: each for each in cache.entries(frame.code)}
    dynamism = Dynamism.of_observed(options.dynamic, observed_values.observed(frame, options.dynamic))
    known: dict[str, model.Advice | None] = {}
    for guard in failed:
        # Failures that differ only in numbers get the same advice, since a trial costs a trace.
        reason = re.sub(r"\d+", "", guard.reason)
        if reason not in known:
            known[reason] = recompile_advice.advise(
                guard, cached.get(guard.compile_id), frame, options, dynamism
            ).advice
    return tuple(replace(each, advice=known[re.sub(r"\d+", "", each.reason)]) for each in failed)


def _write_call(draft: recorder.FrameDraft, frame: Frame, failed: tuple[model.FailedGuard, ...]) -> None:
    code = frame.code
    info = resume_info(code)
    draft.write(
        file=code.co_filename,
        first_line=(original_code(code) or code).co_firstlineno,
        source=source_text(code),
        method=decorated_method(frame),
        instructions=entries.instructions(code),
        cause="recompiled" if failed else ("resumed" if info is not None else "first call"),
        failed_guards=failed,
        called_from=frame_links.calling_frame(),
        resumes=frame_links.resumes(code),
        place=frame_links.resume_index(code),
    )


def decorated_method(frame: Frame) -> str:
    """``Net.forward``, if the frame is a decorator's ``wrapper(self, ...)`` under that name of the class; else ""."""
    code = frame.code
    arguments = [frame.locals[name] for name in code.co_varnames[: code.co_argcount][:1] if name in frame.locals]
    # In ``co_varnames`` the keyword-only parameters come before ``*args``.
    if not code.co_argcount and code.co_flags & inspect.CO_VARARGS:  # wrapper(*args, **kwargs)
        arguments = list(cast("tuple[object, ...]", frame.locals.get(code.co_varnames[code.co_kwonlyargcount], ())))
    if not arguments:
        return ""
    cls = type(arguments[0])
    members = ((name, member) for base in cls.__mro__ for name, member in vars(base).items())
    # The code of a decorator's wrapper is often called ``wrapper``; the class has the function under another name.
    names = [name for name, member in members if isinstance(member, FunctionType) and member.__code__ is code]
    return f"{cls.__name__}.{names[0]}" if names and code.co_name not in names else ""


def original_code(code: CodeType) -> CodeType | None:
    """The code of the user's function that a resume function continues; None if it was freed."""
    info = resume_info(code)
    return info.original() if info is not None else code


def source_text(code: CodeType) -> str:
    """The user's function as text; "" where it is unknown."""
    original = original_code(code)
    if original is None:
        return ""
    linecache.checkcache(original.co_filename)
    try:
        return textwrap.dedent(_text_of(original))
    except (OSError, TypeError, ValueError):  # a file name may be invalid for the file system
        return ""


_BEGINS = re.compile(r"\s*(?:async\s+)?def\s|\s*@|.*(?<!\w)lambda[:\s]")


def _text_of(code: CodeType) -> str:
    # inspect.getsource reads the file name of every module that was imported since the last time, to find the module:
    # of
    # use only where a module has its source in an archive.
    lines = linecache.getlines(code.co_filename)[code.co_firstlineno - 1 :]
    if not lines or not _BEGINS.match(lines[0]):
        return inspect.getsource(code)
    return "".join(inspect.getblock(lines))


def _write_unfinished(draft: recorder.FrameDraft, unfinished: tracer.FailedAttempt) -> None:
    """The progress of tracing, and the operator at which it ended if that is one that fails."""
    if unfinished.steps:
        draft.write(steps=unfinished.steps)
    if unfinished.failed is not None:
        draft.write(failed=entries.failed(unfinished.failed, unfinished.sources))
    if unfinished.graph is None:
        return
    graph, failed = entries.unfinished(unfinished, draft.compile_id)
    if links.operators(graph):
        draft.write(unfinished=graph)
        if unfinished.failed is not None and failed:
            draft.write(failed=replace(draft.frame_fields["failed"], node=failed))  # type: ignore[type-var]


def _write_trace(draft: recorder.FrameDraft, trace: Trace) -> None:
    draft.write(inlined=trace.inlined)
    if trace.graph is not None:
        sources = {each.name: expression(each.source) for each in trace.graph.inputs}
        draft.write(graph=entries.graph(trace.graph.module, draft.compile_id, "captured", sources))
    if isinstance(trace.exit, GraphBreak):
        draft.write(breaks=_numbered(draft, (*trace.exit.earlier, trace.exit.report)))


def _numbered(draft: recorder.FrameDraft, reports: tuple[model.Break, ...]) -> tuple[model.Break, ...]:
    return tuple(replace(report, id=f"{draft.compile_id}.b{number}") for number, report in enumerate(reports))


def _write_residual(draft: recorder.FrameDraft, trace: Trace, residual: rewriting.Residual) -> None:
    frame_links.note(residual, draft.compile_id)
    draft.write(
        status="compiled",
        residual=residual.source,
        kept=entries.kept(residual.kept),
        residual_instructions=entries.instructions(residual.code, residual.kept),
        mutations=compile_log.narrate_mutations(trace, residual),
    )
    if isinstance(trace.exit, GraphBreak):
        draft.write(resume_functions=_resume_functions(trace.exit, residual))


def _resume_functions(end: GraphBreak, residual: rewriting.Residual) -> tuple[model.ResumeFunction, ...]:
    # A break at a branch has two resume functions for the frame itself, then one for each of its callers.
    branches = [*(("if true", "if false") if len(end.resume) == 2 else ("",)), *("" for _ in end.callers)]
    points = (*end.resume, *end.callers)
    functions = []
    for point, code, branch, texts in zip(points, residual.resume_codes, branches, residual.carried, strict=True):
        carried = tuple(model.CarriedValue(*text) for text in texts)
        functions.append(model.ResumeFunction(code.co_name, point.line, carried, _remaining(code, point.line), branch))
    return tuple(functions)


def _remaining(code: CodeType, line: int) -> str:
    """The remaining lines of the user's function."""
    original = original_code(code)
    if original is None:
        return ""
    try:
        lines, first = inspect.getsourcelines(original)
    except (OSError, TypeError):
        return ""
    return textwrap.dedent("".join(lines[max(line - first, 0) :]))
