"""One frame through the compiler, stage by stage.

    Frame ─ tracing ─ Trace ─┬─ backend ── CompiledGraph ─ rewriting ─ Residual ─┬─ CompiledFrame, for the cache
                             └─ guards ─── Check ────────────────────────────────┘                of dispatch/

Each stage is a function that returns a value. Nothing on this page is recorded, logged or counted: the observer
receives what each stage returned, and does that (recording/observer.py).

In torch: torch/_dynamo/convert_frame.py. Read next: nbcompile/tracing/tracer.py, then
nbcompile/backends/captured_graph.py
"""

from __future__ import annotations

from dataclasses import replace

import torch

from nbcompile import backends, config, errors, hooks, torch_internals
from nbcompile.backends import CompiledGraph
from nbcompile.capture.compiled import CompiledFrame
from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import Guard
from nbcompile.capture.trace import Trace
from nbcompile.dispatch import cache, observed_values
from nbcompile.dispatch.hook import BackendKey, Outcome, skip_code
from nbcompile.driver import fallback
from nbcompile.guarding import check as guarding, filtering
from nbcompile.options import Options
from nbcompile.recording.observer import FrameObserver, observing
from nbcompile.rewriting import residual as rewriting
from nbcompile.support.lazy_import import collector_paused
from nbcompile.tracing import tracer
from nbcompile.tracing.inputs.dynamism import Dynamism


def compile_frame(frame: Frame, options: Options, key: BackendKey) -> Outcome:
    """Compile one call that no cache entry accepts; or return how it runs instead.

    Raises:
        errors.Unsupported: ``fullgraph=True`` and the frame breaks.
        errors.NbcompileError: a hard error (the backend's, an operator's).
    """
    # Settings of torch's own config that are set there count as well.
    with config.with_torch_settings():
        # Below a transform of torch.func the arguments are the transform's own wrappers: the call runs as Python,
        # unless ``functionalize`` is the only one.
        if torch_internals.in_transform() and not torch_internals.only_functionalized():
            return fallback.IN_TRANSFORM
        # Evaluated before the compile: the reason of a recompilation is the guards that fail in existing entries.
        failed = cache.failures(frame.code, frame.scope(), key)
        not_compiled = fallback.not_compiled(frame, options, failed)
        if not_compiled is not None:
            return not_compiled
        with observing(frame, cache.next_compile_id(frame.code)) as observer:
            observer.called(options, failed)
            try:
                with observer.compiling(), torch_internals.without_hooks_on_saved_tensors():
                    return compile_twice_at_most(frame, options, observer)
            except Exception as error:  # noqa: BLE001 - raised again where nothing else is reported
                return fallback.outcome_of(frame, options, observer, error)


def compile_twice_at_most(frame: Frame, options: Options, observer: FrameObserver) -> CompiledFrame:
    """Run the stages, and once more if an import meanwhile changed what the trace had read.

    The first compile of a process imports parts of torch (fast/prebuild.py does while C++ is built), some of which
    register classes with pytrees. A trace of ``vmap`` has read the registry by then. The second time nothing is left to
    import.
    """
    try:
        return run_stages(frame, options, observer)
    except guarding.GuardsDoNotHold as error:
        if error.is_broken_promise:  # an assertion of the program on a size, which would fail again
            raise
    return run_stages(frame, options, observer)


def run_stages(frame: Frame, options: Options, observer: FrameObserver) -> CompiledFrame:
    """Run the stages in order; each takes the results of the earlier ones."""
    trace, compiled = capture_and_compile(frame, options, observer)
    try:
        # Guards come after the backend: compiling may have found out that a symbolic size is a constant.
        guards, check = build_check(frame, options, trace, observer)
        residual = build_residual(frame, trace, compiled, observer)
        observed_values.note(frame, guards, [each.source for each in trace.graph.inputs] if trace.graph else [])
        # Last: an entry is stored only if its check and its program could be built.
        parts = hooks.CompiledParts(trace, guards, residual, compiled.function, compiled.artifact)
        hooks.active().store_frame(frame, options, parts)
        return CompiledFrame(observer.compile_id, residual.code, check, options.backend)
    finally:
        # Whatever happens: the trace refers to the call's tensors.
        trace.release()


def capture_and_compile(frame: Frame, options: Options, observer: FrameObserver) -> tuple[Trace, CompiledGraph]:
    """The trace of a frame and its compiled graph; traced again if the backend wants floats as constants."""
    dynamism = Dynamism.of_observed(options.dynamic, observed_values.observed(frame, options.dynamic))
    trace = capture(frame, options, dynamism, observer)
    try:
        return trace, compile_graph(trace, frame, options, observer)
    except errors.BackendCompilerFailed as error:
        floats = torch_internals.floats_to_be_constant(error.inner_exception)
        # The backend could do nothing with a float that is a symbol. With floats as constants the frame is traced once
        # more, and each float value gets its own compilation.
        if floats is None:
            raise
    # No second retry: without symbolic floats there is nothing left that the backend could ask for.
    try:
        trace = capture(frame, options, replace(dynamism, floats=False), observer)
        return trace, compile_graph(trace, frame, options, observer)
    finally:
        floats.clear()


def capture(frame: Frame, options: Options, dynamism: Dynamism, observer: FrameObserver) -> Trace:
    """Trace the frame's bytecode: a graph, guards, side effects, and how the frame ends."""
    with observer.stage("tracing"), observer.tracing() as attempt, collector_paused():
        trace = tracer.trace(frame, options, dynamism, observer.records_steps, attempt)
    observer.traced(trace, attempt)
    return trace


def compile_graph(trace: Trace, frame: Frame, options: Options, observer: FrameObserver) -> CompiledGraph:
    """Compile the trace's graph by the user's backend."""
    hooks.active().before_backend(trace)
    with observer.stage("backend"):
        return backends.compile_captured_graph(trace, frame, options)


def build_check(
    frame: Frame, options: Options, trace: Trace, observer: FrameObserver
) -> tuple[tuple[Guard, ...], guarding.FrameCheck]:
    """Compile the guards of a trace into one check of a later call's frame."""
    observer.breaks(trace)
    fast = hooks.active()
    with observer.stage("guards"), collector_paused():
        # ``trace.guards()`` settles the sizes only now.
        with torch._C.DisableTorchFunction():  # no ``__torch_function__`` may see these reads
            all_guards = (*trace.guards(), *backends.guards_of_backend(trace, options))
            guards = filtering.filter_guards(all_guards, frame, options.guard_filter)
        check = guarding.build_check(guards, frame, fast.group_guards(guards), fast.size_conditions(guards))
    observer.guarded(options, check, trace)
    return guards, check


def build_residual(frame: Frame, trace: Trace, compiled: CompiledGraph, observer: FrameObserver) -> rewriting.Residual:
    """Build the residual program: what runs instead of the frame's code."""
    with torch._C.DisableTorchFunction():
        with observer.stage("residual program"), collector_paused():
            residual = rewriting.residual_program(frame, trace, compiled.function, compiled.failure)
        skip_codes(residual)
        observer.rewritten(trace, residual)
    return residual


def skip_codes(residual: rewriting.Residual) -> None:
    """Mark the codes that a residual program runs uncompiled."""
    # These are the rest of a frame that could not be compiled, and the frame's own code, which runs after an error.
    for code in residual.python_codes:
        skip_code(code)
    if residual.code_as_written is not None:
        skip_code(residual.code_as_written, nested=True)
