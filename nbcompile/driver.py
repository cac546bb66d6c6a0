"""THE page: one frame, stage by stage.

    Frame -> trace -> graph, guards, recipes        tracing/
          -> the graph's callable                   backends.py
          -> the residual program                   rewriting/
          -> the check of the guards                guarding/
          -> CompiledFrame                          handed to the hook (dispatch/)

Each stage is a function that returns a value; nothing calls back.

In torch: torch/_dynamo/convert_frame.py. Read next: nbcompile/backends.py
"""

from __future__ import annotations

import gc
import inspect
import linecache
import re
import textwrap
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import CodeType

import torch

from nbcompile import advice, backends, chain, config, errors, hooks, logs, narrate, torch_internals, what_if
from nbcompile.capture.compiled import CompiledFrame
from nbcompile.capture.frame import Frame
from nbcompile.capture.source import Scope, SizeSource, expression, resolve
from nbcompile.capture.trace import CapturedGraph, GraphBreak, Trace
from nbcompile.dispatch import cache
from nbcompile.dispatch.hook import BackendKey, Outcome, RunOnly, SkipFrame, skip_code
from nbcompile.guarding import check as guarding, filtering
from nbcompile.ir import compiled_artifact
from nbcompile.later import collector_paused
from nbcompile.options import Options
from nbcompile.record import links, model, recorder
from nbcompile.rewriting import residual as rewriting
from nbcompile.rewriting.resume import resume_info
from nbcompile.torch_internals import interrupts
from nbcompile.tracing import breaks, tracer
from nbcompile.tracing.inputs.dynamism import Dynamism

GUARD_LATENCY = "one evaluation of the guards"


def compile_frame(frame: Frame, options: Options, key: BackendKey) -> Outcome:
    """Compile one call that no cache entry accepts; or say how it runs instead.

    Raises:
        errors.Unsupported: ``fullgraph=True`` and the frame breaks.
        errors.NbcompileError: a hard error (the backend's, an operator's).
    """
    with config.with_torchs():
        return _compile_frame(frame, options, key)


def _compile_frame(frame: Frame, options: Options, key: BackendKey) -> Outcome:
    if torch_internals.in_transform():
        return SkipFrame("a transform of torch.func is active", code_wide=False)
    failed = cache.failures(frame.code, frame.scope(), key)
    limit = cache.limit_reached(frame, options.recompile_limit)
    if limit is not None:
        gc.collect()  # entries whose functions were defined again may be waiting for that
        limit = cache.limit_reached(frame, options.recompile_limit)
    if limit is not None:
        return _limit_reached(frame, options, limit, failed)
    if failed and config.error_on_recompile:
        raise errors.RecompileError(frame.code, failed)
    compile_id = cache.next_compile_id(frame.code)
    where = f"{frame.code.co_filename}:{frame.code.co_firstlineno}"
    logs.recompiled(frame.code.co_name, where, failed, compile_id)
    with recorder.frame(compile_id, frame.code.co_name) as page:
        if page is not None:
            _write_call(page, frame, _advised(frame, options, failed))
        try:
            return _stages(frame, options, compile_id, page)
        except Exception as error:  # noqa: BLE001 - raised again where nothing else is said of it
            interrupts.release()
            interrupts.pass_on(error)
            return _instead(frame, options, compile_id, page, error)


def _instead(
    frame: Frame, options: Options, compile_id: str, page: recorder.FrameDraft | None, error: Exception
) -> Outcome:
    """How a call runs whose compilation failed; or the error that the call raises."""
    match error:
        case breaks.SkipFrame():
            return _skipped(page, error.reason)
        case breaks.Unsupported():
            return _cannot_compile(options, compile_id, page, error)
        case errors.NbcompileError():
            obstacle = getattr(error, "obstacle", None)
            if page is not None and isinstance(obstacle, breaks.Unsupported):
                page.write(breaks=_numbered(page, (tracer.break_report(obstacle),)))
            if config.suppress_errors and not options.fullgraph:
                return _suppressed(frame, page, error)
            raise error
        case guarding.GuardsDoNotHold() if error.is_broken_promise:
            return _promise_broken(page, error)
        case RecursionError():
            return replace(_skipped(page, "Python's stack is too deep to trace"), code_wide=False, nested=True)
    if torch_internals.is_constraint_violation(error):
        raise error  # the user's own promise does not hold
    return _internal_error(frame, options, page, error)


def _stages(frame: Frame, options: Options, compile_id: str, page: recorder.FrameDraft | None) -> CompiledFrame:
    with compiled_artifact.collecting() as made:
        trace, compiled_graph = _trace_and_compile(frame, options, _dynamism(frame, options), page)
    try:
        return _assembled(frame, options, compile_id, page, trace, compiled_graph, made)
    finally:
        trace.release()


def _assembled(
    frame: Frame,
    options: Options,
    compile_id: str,
    page: recorder.FrameDraft | None,
    trace: Trace,
    compiled_graph: Callable[..., object] | None,
    made: compiled_artifact.ArtifactBuilder,
) -> CompiledFrame:
    if isinstance(trace.exit, GraphBreak):
        _tell_break((*trace.exit.earlier, trace.exit.report), compile_id)
    fast = hooks.active()
    with recorder.stage("guards"), collector_paused():
        with torch._C.DisableTorchFunction():  # looking at a tensor is not for its class, nor for a mode
            guards = filtering.kept(trace.guards(), frame, options.guard_filter)
        check = guarding.build_check(guards, frame, fast.group_guards(guards), fast.size_conditions(guards))
    if page is not None:
        page.write(**what_if.describe(frame, options, check, page.compile_id), symbols=trace.symbols())
        latency = guarding.latency(check, frame)
        page.timings.append(model.Timing(page.compile_id, GUARD_LATENCY, latency, inside=model.EACH_CALL))
    with torch._C.DisableTorchFunction():
        with recorder.stage("residual program"), collector_paused():
            residual = rewriting.residual_program(frame, trace, compiled_graph)
        _tell_side_effects(trace, residual, compile_id)
        for code in residual.python_codes:
            skip_code(code)
        cache.note(frame, guards, [each.source for each in trace.graph.inputs] if trace.graph else [])
        if page is not None:
            _write_residual(page, trace, residual)
    fast.store_frame(frame, options, trace, guards, residual, compiled_graph, made)
    return CompiledFrame(compile_id, residual.code, check, options.backend)


def _trace_and_compile(
    frame: Frame, options: Options, dynamism: Dynamism, page: recorder.FrameDraft | None
) -> tuple[Trace, Callable[..., object] | None]:
    unfinished = None if page is None else tracer.FailedAttempt()
    with recorder.stage("tracing"), collector_paused():
        try:
            trace = tracer.trace(frame, options, dynamism, page is not None and _records_steps(), unfinished)
        except BaseException:
            if page is not None and unfinished is not None:
                with torch._C.DisableTorchFunction():
                    _write_unfinished(page, unfinished)
            raise
    if page is not None and unfinished is not None:
        with torch._C.DisableTorchFunction():
            _write_trace(page, trace)
            if unfinished.failed is not None:
                page.write(failed=narrate.failed(unfinished.failed, unfinished.sources))
    hooks.active().before_backend(trace)
    try:
        with recorder.stage("backend"):
            return trace, _compile_graph(trace, frame, options)
    except errors.BackendCompilerFailed as error:
        names = torch_internals.floats_to_be_constant(error.inner_exception)
        if names is None:
            raise
    try:
        return _trace_and_compile(frame, options, replace(dynamism, floats=False), page)
    finally:
        names.clear()


def _records_steps() -> bool:
    return config.record_steps or recorder.wants_steps()


def _dynamism(frame: Frame, options: Options) -> Dynamism:
    """What is symbolic in this trace: what the user said, and what was seen to differ."""
    if options.dynamic is False:
        return Dynamism(False)
    with torch._C.DisableTorchFunction():
        seen = cache.observed(frame)
    return Dynamism(options.dynamic, seen.dims, seen.strides, seen.scalars)


def _compile_graph(trace: Trace, frame: Frame, options: Options) -> Callable[..., object] | None:
    graph = trace.graph
    if graph is None:
        return None
    if backends.is_one_autograd_function(options.backend) and _is_differentiated_inside(trace):
        return backends.as_captured(graph.module, "torch.autograd.grad differentiates one of its results by another")
    backend = backends.lookup(options.backend, mode=options.mode, options=options.backend_options)
    scope = frame.scope()
    with torch._C.DisableTorchFunction():
        overridden = any(torch_internals.is_overriding(resolve(each.source, scope)) for each in graph.inputs)
        inputs = _example_inputs(graph, frame)
    asked = overridden or bool(torch_internals.function_modes())
    compile_graph = hooks.compile_now if asked else hooks.active().compile_graph
    with torch_internals.without_function_modes():
        compiled = compile_graph(backend, graph, inputs)
    wished = list(_wished_sizes(graph, scope))
    if wished:
        compiled = backends.specialised(compiled, wished, lambda *inputs: backend(graph.module, list(inputs)))
    if not asked:
        return compiled
    compiled_artifact.refuse("the graph runs outside of function modes, on plain tensors")
    return torch_internals.without_overrides(compiled)


def _is_differentiated_inside(trace: Trace) -> bool:
    """Whether what follows the graph asks for the derivative of one of its results by another (``autograd.grad``)."""
    met = (*trace.exit.earlier, trace.exit.report) if isinstance(trace.exit, GraphBreak) else ()
    return any(each.kind == breaks.AUTOGRAD_GRAD.id for each in met)


def _wished_sizes(graph: CapturedGraph, scope: Scope) -> Iterator[tuple[int, Callable[[int], bool]]]:
    """Sizes for which the user wants code of their own: the input that is the size, and whether it is one of them.

    ``mark_dynamic(x, 0, specialize_on=[lambda n: n == 8])``
    """
    for position, each in enumerate(graph.inputs):
        if isinstance(each.source, SizeSource) and each.source.property == "size":
            marked = vars(resolve(each.source.base, scope)).get("_specialize_on", {})
            for condition in marked.get(each.source.dim, ()):
                yield position, condition


def _example_inputs(graph: CapturedGraph, frame: Frame) -> list[object]:
    """The graph's inputs as they are before it runs; symbolic ones as symbols."""
    scope = frame.scope()
    values = [each.example if graph.symbolic else resolve(each.source, scope) for each in graph.inputs]
    return [torch_internals.plain(each) if isinstance(each, torch.Tensor) else each for each in values]


# -- frames that are not compiled ------------------------------------------------------------


def _limit_reached(
    frame: Frame, options: Options, limit: tuple[str, int], failed: tuple[model.FailedGuard, ...]
) -> Outcome:
    text = cache.limit_warning(frame.code, limit, failed)
    with recorder.frame(f"{cache.state(frame.code).number}/-", frame.code.co_name) as page:
        if page is not None:
            advised = _advised(frame, options, failed)
            _write_call(page, frame, tuple(advice.with_limit(each, *limit) for each in advised))
            page.write(status="skipped", instead=model.EAGER, skip_reason=f"{limit[0]} ({limit[1]}) reached")
        if options.fullgraph or config.fail_on_recompile_limit_hit:
            raise errors.FailOnRecompileLimitHit(text, fullgraph=options.fullgraph)
    warnings.warn(text, errors.RecompileLimitWarning, stacklevel=2)
    return RunOnly(text)


def _skipped(page: recorder.FrameDraft | None, reason: str) -> SkipFrame:
    if page is not None:
        page.write(status="skipped", instead=model.EAGER, skip_reason=reason)
    return SkipFrame(reason, code_wide=True)


def _promise_broken(page: recorder.FrameDraft | None, error: guarding.GuardsDoNotHold) -> Outcome:
    """The program promises something of a size that this call does not keep: run as it stands, it says so itself."""
    told = f"this call breaks a promise of the program: {error.failed.reason if error.failed else ''}"
    if page is not None:
        page.write(status="skipped", instead=model.EAGER, skip_reason=told)
    return SkipFrame(told)


def _cannot_compile(
    options: Options, compile_id: str, page: recorder.FrameDraft | None, error: breaks.Unsupported
) -> Outcome:
    is_error = options.fullgraph or error.is_final
    met = (error.cause, error) if error.cause else (error,)
    reports = [tracer.break_report(each, "error" if is_error else "skip") for each in met]
    if page is not None:
        page.write(breaks=_numbered(page, tuple(reports)))
    if is_error:
        if page is not None:
            why = "with fullgraph=True" if options.fullgraph else "here (error_on_graph_break)"
            page.write(skip_reason=f"{reports[0].title.rstrip('.')}; {why} a graph break is an error")
        _warn(reports)
        raise errors.Unsupported(reports[0], config.verbose) from (error if config.verbose else None)
    _tell_break(reports, compile_id)
    error.forget_values()
    skipped = _skipped(page, f"graph break: {error.kind.title}")
    # A stack that is used up now may not be the next time, and what is called from here finds less of it.
    return replace(skipped, code_wide=False, nested=True) if error.kind is breaks.RECURSION else skipped


def _tell_break(reports: Sequence[model.Break], compile_id: str) -> None:
    _warn(reports)
    logs.graph_break(reports, compile_id)


def _warn(reports: Sequence[model.Break]) -> None:
    if recorder.tells_breaks():
        return
    for each in reports:
        if breaks.KINDS[each.kind].warns:
            logs.warn_once(each)


def _suppressed(frame: Frame, page: recorder.FrameDraft | None, error: Exception) -> Outcome:
    code = frame.code
    fails_anyway = isinstance(error, errors.TorchRuntimeError)
    if not (fails_anyway and recorder.tells_breaks()):  # what fails in eager mode too is told there, and in the picture
        warnings.warn(
            f"WON'T CONVERT {code.co_name} {code.co_filename} line {code.co_firstlineno} due to:\n{error}",
            errors.SuppressedErrorWarning,
            stacklevel=2,
        )
    if fails_anyway:
        return _skipped(page, "an operator fails on its inputs, whatever runs it")
    return _skipped(page, f"{type(error).__name__} (config.suppress_errors)")


def _internal_error(frame: Frame, options: Options, page: recorder.FrameDraft | None, error: Exception) -> Outcome:
    """A mistake of ours: the function still runs, uncompiled, and the user is told."""
    told = errors.InternalError(frame.code, error)
    if page is not None:
        page.write(
            status="failed",
            instead=model.EAGER,
            skip_reason=f"internal error of nbcompile: {type(error).__name__}: {error}",
        )
    if options.fullgraph or config.verbose:
        raise told from error
    last = "".join(traceback.format_exception(error)[-3:])
    warnings.warn(f"{told}\n{last}", errors.InternalErrorWarning, stacklevel=2)
    return SkipFrame(str(told), code_wide=True)


# -- the record ------------------------------------------------------------------------------


def _advised(frame: Frame, options: Options, failed: tuple[model.FailedGuard, ...]) -> tuple[model.FailedGuard, ...]:
    """With advice for each entry; what refused for one reason but for the numbers in it is tried once."""
    entries = {each.compile_id: each for each in cache.entries(frame.code)}
    dynamism = _dynamism(frame, options)
    known: dict[str, model.Advice | None] = {}
    for each in failed:
        reason = re.sub(r"\d+", "", each.reason)
        if reason not in known:
            known[reason] = advice.advise(each, entries.get(each.compile_id), frame, options, dynamism).advice
    return tuple(replace(each, advice=known[re.sub(r"\d+", "", each.reason)]) for each in failed)


def _write_call(page: recorder.FrameDraft, frame: Frame, failed: tuple[model.FailedGuard, ...]) -> None:
    code = frame.code
    info = resume_info(code)
    page.write(
        file=code.co_filename,
        first_line=(original_code(code) or code).co_firstlineno,
        source=source_text(code),
        instructions=narrate.instructions(code),
        cause="recompiled" if failed else ("resumed" if info is not None else "first call"),
        failed_guards=failed,
        called_from=chain.calling_frame(),
        resumes=chain.resumes(code),
        place=chain.place(code),
    )


def original_code(code: CodeType) -> CodeType | None:
    """The code of the user's function, of which a resume function is the rest; None where it is gone."""
    info = resume_info(code)
    return info.original() if info is not None else code


def source_text(code: CodeType) -> str:
    """The user's function as text; "" where it is unknown."""
    original = original_code(code)
    if original is None:
        return ""
    linecache.checkcache(original.co_filename)
    try:
        return textwrap.dedent(inspect.getsource(original))
    except (OSError, TypeError):
        return ""


def _write_unfinished(page: recorder.FrameDraft, unfinished: tracer.FailedAttempt) -> None:
    """How far tracing came, and the operator at which it ended if that is one that fails."""
    if unfinished.steps:
        page.write(steps=unfinished.steps)
    if unfinished.failed is not None:
        page.write(failed=narrate.failed(unfinished.failed, unfinished.sources))
    if unfinished.graph is None:
        return
    graph, failed = narrate.unfinished(unfinished, page.compile_id)
    if links.operators(graph):
        page.write(unfinished=graph)
        if unfinished.failed is not None and failed:
            page.write(failed=replace(page.frame_fields["failed"], node=failed))  # type: ignore[type-var]


def _write_trace(page: recorder.FrameDraft, trace: Trace) -> None:
    page.write(inlined=trace.inlined)
    if trace.graph is not None:
        sources = {each.name: expression(each.source) for each in trace.graph.inputs}
        page.write(graph=narrate.graph(trace.graph.module, page.compile_id, "captured", sources))
    if isinstance(trace.exit, GraphBreak):
        page.write(breaks=_numbered(page, (*trace.exit.earlier, trace.exit.report)))


def _numbered(page: recorder.FrameDraft, reports: tuple[model.Break, ...]) -> tuple[model.Break, ...]:
    return tuple(replace(report, id=f"{page.compile_id}.b{number}") for number, report in enumerate(reports))


def _write_residual(page: recorder.FrameDraft, trace: Trace, residual: rewriting.Residual) -> None:
    chain.note(residual, page.compile_id)
    page.write(
        status="compiled",
        residual=residual.source,
        kept=narrate.kept(residual.kept),
        residual_instructions=narrate.instructions(residual.code, residual.kept),
        mutations=narrate_mutations(trace, residual),
    )
    if isinstance(trace.exit, GraphBreak):
        page.write(resume_functions=_resume_functions(trace.exit, residual))


def _tell_side_effects(trace: Trace, residual: rewriting.Residual, compile_id: str) -> None:
    """As config.side_effect_replay_policy has it.

    Raises:
        RuntimeError: the policy is ``error``, and there are some.
    """
    policy = config.side_effect_replay_policy
    if not trace.mutations or policy == "silent":
        return
    logs.side_effects(lambda: narrate_mutations(trace, residual), compile_id)
    if policy in ("warn", "error"):
        changed = ", ".join(dict.fromkeys(target for target, _ in residual.effects if target))
        text = f"The function changes what others can see; it is replayed after the graph. Changed: {changed}"
        if policy == "error":
            raise errors.ReplayedSideEffects(text)
        warnings.warn(text, errors.SideEffectWarning, stacklevel=2)


def narrate_mutations(trace: Trace, residual: rewriting.Residual) -> tuple[model.Mutation, ...]:
    """The side effects, in words and as the statements that replay them."""
    return tuple(
        model.Mutation(type(mutation).__name__, target, code, getattr(mutation, "stack", ()))
        for mutation, (target, code) in zip(trace.mutations, residual.effects, strict=True)
    )


def _resume_functions(end: GraphBreak, residual: rewriting.Residual) -> tuple[model.ResumeFunction, ...]:
    branches = [*(("if true", "if false") if len(end.resume) == 2 else ("",)), *("" for _ in end.callers)]
    points = (*end.resume, *end.callers)
    made = []
    for point, code, branch, texts in zip(points, residual.resume_codes, branches, residual.carried, strict=True):
        carried = tuple(model.CarriedValue(*text) for text in texts)
        made.append(model.ResumeFunction(code.co_name, point.line, carried, _remaining(code, point.line), branch))
    return tuple(made)


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
