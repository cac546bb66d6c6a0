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
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from nbcompile import backends, config, errors, fallback, hooks, torch_internals
from nbcompile.capture.compiled import CompiledFrame
from nbcompile.capture.frame import Frame
from nbcompile.capture.source import Scope, SizeSource, resolve
from nbcompile.capture.trace import CapturedGraph, GraphBreak, Trace
from nbcompile.dispatch import cache
from nbcompile.dispatch.hook import BackendKey, Outcome, SkipFrame, skip_code
from nbcompile.guarding import check as guarding, filtering
from nbcompile.ir import compiled_artifact
from nbcompile.ir.profiler_ranges import of_frame, stage_range
from nbcompile.observe import dynamo_counters, torch_logs
from nbcompile.options import Options
from nbcompile.record import recorder
from nbcompile.recording.observer import FrameObserver, observing
from nbcompile.rewriting import residual as rewriting
from nbcompile.support import fuel
from nbcompile.support.lazy_import import collector_paused
from nbcompile.torch_internals import interrupts
from nbcompile.tracing import breaks, tracer
from nbcompile.tracing.inputs.dynamism import Dynamism

recorder.range_openers.append(stage_range)


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
        return fallback.limit_reached(frame, options, limit, failed)
    if failed and config.error_on_recompile:
        raise errors.RecompileError(frame.code, failed)
    compile_id = cache.next_compile_id(frame.code)
    where = f"{frame.code.co_filename}:{frame.code.co_firstlineno}"
    if not fuel.allows("frame", f"{frame.code.co_name} ({where})"):
        return SkipFrame("bisection: the frame runs as Python", code_wide=False)
    torch_logs.recompiled(frame.code.co_name, where, failed, compile_id)
    with observing(frame, compile_id) as observer, of_frame(frame.code, compile_id):
        observer.called(options, failed)
        dynamo_counters.add("frames", "total")
        try:
            with dynamo_counters.timed("frame"):
                compiled = _stages(frame, options, compile_id, observer)
            dynamo_counters.add("frames", "ok")
            return compiled
        except Exception as error:  # noqa: BLE001 - raised again where nothing else is said of it
            interrupts.release()
            interrupts.pass_on(error)
            return fallback.outcome_of(frame, options, compile_id, observer, error)


def _stages(frame: Frame, options: Options, compile_id: str, observer: FrameObserver) -> CompiledFrame:
    with compiled_artifact.collecting() as artifact:
        dynamism = Dynamism.of_observed(options.dynamic, cache.observed(frame, options.dynamic))
        trace, compiled_graph = _trace_and_compile(frame, options, dynamism, observer)
    try:
        return _assembled(frame, options, compile_id, observer, trace, compiled_graph, artifact)
    finally:
        trace.release()


def _assembled(
    frame: Frame,
    options: Options,
    compile_id: str,
    observer: FrameObserver,
    trace: Trace,
    compiled_graph: Callable[..., object] | None,
    artifact: compiled_artifact.ArtifactBuilder,
) -> CompiledFrame:
    if isinstance(trace.exit, GraphBreak):
        fallback.log_breaks((*trace.exit.earlier, trace.exit.report), compile_id)
    fast = hooks.active()
    with recorder.stage("guards"), dynamo_counters.timed("guards"), collector_paused():
        with torch._C.DisableTorchFunction():  # looking at a tensor is not for its class, nor for a mode
            guards = filtering.filter_guards(trace.guards(), frame, options.guard_filter)
        check = guarding.build_check(guards, frame, fast.group_guards(guards), fast.size_conditions(guards))
    observer.guarded(options, check, trace)
    with torch._C.DisableTorchFunction():
        with recorder.stage("residual program"), collector_paused():
            residual = rewriting.residual_program(frame, trace, compiled_graph)
        fallback.log_side_effects(trace, residual, compile_id)
        skip_codes(residual)
        dynamo_counters.count_resumes(residual.resume_codes)
        cache.note(frame, guards, [each.source for each in trace.graph.inputs] if trace.graph else [])
        observer.rewritten(trace, residual)
    fast.store_frame(frame, options, trace, guards, residual, compiled_graph, artifact)
    return CompiledFrame(compile_id, residual.code, check, options.backend)


def skip_codes(residual: rewriting.Residual) -> None:
    """Mark the codes that a residual program runs uncompiled."""
    for code in residual.python_codes:
        skip_code(code)
    if residual.code_as_written is not None:
        skip_code(residual.code_as_written, nested=True)


def _trace_and_compile(
    frame: Frame, options: Options, dynamism: Dynamism, observer: FrameObserver
) -> tuple[Trace, Callable[..., object] | None]:
    attempt = observer.begin_trace()
    with recorder.stage("tracing"), collector_paused():
        try:
            trace = tracer.trace(frame, options, dynamism, observer.records_steps, attempt)
        except BaseException:
            observer.trace_failed(attempt)
            raise
    observer.traced(trace, attempt)
    hooks.active().before_backend(trace)
    try:
        with recorder.stage("backend"), dynamo_counters.timed("backend"):
            return trace, _compile_graph(trace, frame, options)
    except errors.BackendCompilerFailed as error:
        names = torch_internals.floats_to_be_constant(error.inner_exception)
        if names is None:
            raise
    try:
        return _trace_and_compile(frame, options, replace(dynamism, floats=False), observer)
    finally:
        names.clear()


def _compile_graph(trace: Trace, frame: Frame, options: Options) -> Callable[..., object] | None:
    graph = trace.graph
    if graph is None:
        return None
    if backends.is_one_autograd_function(options.backend) and _is_differentiated_inside(trace):
        return backends.as_captured(graph.module, "torch.autograd.grad differentiates one of its results by another")
    dynamo_counters.count_graph(graph.module)
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
    """True if what follows the graph asks for the derivative of one of its results by another (``autograd.grad``)."""
    met = (*trace.exit.earlier, trace.exit.report) if isinstance(trace.exit, GraphBreak) else ()
    return any(each.kind == breaks.AUTOGRAD_GRAD.id for each in met)


def _wished_sizes(graph: CapturedGraph, scope: Scope) -> Iterator[tuple[int, Callable[[int], bool]]]:
    """Sizes for which the user wants code of their own: the input that is the size, and whether it is one of them.

    ``mark_dynamic(x, 0, specialize_on=[lambda n: n == 8])``
    """
    for position, graph_input in enumerate(graph.inputs):
        if isinstance(graph_input.source, SizeSource) and graph_input.source.property == "size":
            marked = vars(resolve(graph_input.source.base, scope)).get("_specialize_on", {})
            for condition in marked.get(graph_input.source.dim, ()):
                yield position, condition


def _example_inputs(graph: CapturedGraph, frame: Frame) -> list[object]:
    """The graph's inputs as they are before it runs; symbolic ones as symbols."""
    scope = frame.scope()
    values = [each.example if graph.symbolic else resolve(each.source, scope) for each in graph.inputs]
    return [torch_internals.plain(each) if isinstance(each, torch.Tensor) else each for each in values]
