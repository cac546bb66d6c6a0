"""THE OTHER page: one graph to one callable.

    lookup("inductor")(graph_module, example_inputs)     a callable over the graph's inputs

    captured graph ─ aot ─┬─ forward  ─┬─ lowering ─ scheduling ─ codegen ─ runtime ─ callable
                          └─ backward ─┘

A backend is any function ``(GraphModule, example_inputs) -> callable``, as in
torch. The four that come with nbcompile are rungs of a ladder: each does one
thing more than the one before, so that a wrong result can be pinned on a stage.

    eager                        the captured graph as it is
    aot_eager                    + AOTAutograd: functional ATen, with the backward graph
    aot_eager_decomp_partition   + decompositions and the min-cut partition
    inductor                     + our loop-level IR, fusion and generated code (the default)

Others of torch's names stand for one of them: eager_noexcept, eager_debug, aot_eager_default_partitioner, cudagraphs.

In torch: torch/_dynamo/backends/, torch/_inductor/compile_fx.py. Read next:
nbcompile/aot/compile.py, then nbcompile/lowering/
"""

from __future__ import annotations

import functools
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
import torch.fx

from nbcompile import errors, torch_internals
from nbcompile.aot import checkpoints, hidden_writes, input_aliasing, self_overlapping_writes, unused_rng
from nbcompile.aot.attention import fuse_attention
from nbcompile.aot.channels_last import mark_channels_last
from nbcompile.aot.compile import BoxedFunction, Compilers, NeedsEagerFallback, compile_graph
from nbcompile.aot.decompositions import default_table
from nbcompile.aot.traced_graphs import requires_grad
from nbcompile.backend_registry import (
    Backend,
    backend_name,
    hidden,
    lookup,
    names,
    register,
    specialised,
)
from nbcompile.capture import nested_regions
from nbcompile.codegen import cpp
from nbcompile.codegen.printers import UnprintableIndex
from nbcompile.codegen.profiler_ranges import profiler_ranges
from nbcompile.codegen.wrapper import opaque_values
from nbcompile.gpu_backend import generate_for_gpu, generate_on_gpu, is_on_gpu, obstacle_to
from nbcompile.ir import compiled_artifact
from nbcompile.lowering import UnsupportedGraph, lower
from nbcompile.record import recorder
from nbcompile.recording.graph_record import note, record_generated, record_graph, rewrite_and_record
from nbcompile.run_aten import attribute_of, run_through_aten
from nbcompile.runtime import toolchain
from nbcompile.runtime.program import load
from nbcompile.scheduling import schedule
from nbcompile.support import fuel

__all__ = ["Backend", "backend_name", "hidden", "lookup", "names", "register", "specialised"]

CompileOne = Callable[[torch.fx.GraphModule, Sequence[Any], str], BoxedFunction]
"""Makes a callable of one ATen graph; the last argument is the graph's stage in the record."""


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """``compile(f, options={...})``, for our own backend."""

    verify: bool = False
    """Run every compiled graph operator by operator as well, and compare (slow; for finding our mistakes)."""
    fallback_random: bool = True
    """Random numbers are those that eager draws. False: our own, as part of the loops (lowering/randomness.py)."""
    target: str = ""
    """A GPU (``sm_90``): CPU tensors are compiled for as if they lay there, and its code runs in a simulator."""
    simulation_seconds: float = 60.0
    """With a target: a call whose simulation would take longer runs through ATen."""
    debug: bool = False
    """On a GPU: wait after each launch, so that an error names its kernel (slow)."""


DEFAULTS = BackendOptions()
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
"""torch.compile's presets. They choose among ways to run matrix products and kernels on a GPU: on a CPU all are one."""


# --- the ladder ------------------------------------------------------------------------------------------------------


@register
def eager(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """The captured graph as it is: what is wrong here is wrong in capture."""
    flat = nested_regions.with_inlined_regions(graph_module)
    return torch_internals.forward_of(checkpoints.with_eager_checkpoints(flat))


@register
def aot_eager(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """AOTAutograd, and then ATen operator by operator."""
    compilers = _compilers(run_through_aten, graph_module)
    return _through_aot(graph_module, example_inputs, compilers, recompute=False)


@register
def eager_noexcept(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Like ``eager``, for tests: an exception of the graph itself is told as one that nobody expects."""
    run = eager(graph_module, example_inputs)

    def run_without_exceptions(*arguments: Any) -> Any:
        try:
            return run(*arguments)
        except Exception as error:
            raise errors.GraphRaised("Unexpected exception when running generated GraphModule") from error

    return hidden(run_without_exceptions)


@register
def eager_debug(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Like ``eager``, with a check of what each operator's schema says of writes and aliases."""
    run, check = eager(graph_module, example_inputs), torch_internals.schema_check_mode()

    def run_checked(*arguments: Any) -> Any:
        with check():
            return run(*arguments)

    return hidden(run_checked)


@register
def aot_eager_default_partitioner(
    graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]
) -> Callable[..., Any]:
    """Torch's name for ``aot_eager``, which keeps for the backward graph what eager would."""
    return aot_eager(graph_module, example_inputs)


@register
def cudagraphs(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """AOTAutograd, and operator by operator; no graph of the device is recorded, which the record says."""
    note("CUDA graphs are not recorded: the graph runs operator by operator")
    return aot_eager(graph_module, example_inputs)


@register
def aot_eager_decomp_partition(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Like ``inductor``, but with ATen operators in place of generated code."""
    compilers = _compilers(run_through_aten, graph_module)
    return _through_aot(graph_module, example_inputs, compilers, decompositions=default_table())


@register
def inductor(
    graph_module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, object] | None = None,
) -> Callable[..., Any]:
    """Our code generator: fused loops in C++, matrix products and the like through ATen."""
    chosen = read_settings(mode, options or {})
    improve = None if chosen.target else _improve  # what it does pays on a CPU
    compilers = _compilers(functools.partial(compile_aten_graph, options=chosen), graph_module, improve)
    return _through_aot(graph_module, example_inputs, compilers, decompositions=default_table())


def _through_aot(
    graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any], compilers: Compilers, **more: Any
) -> Callable[..., Any]:
    """Through AOTAutograd and the compilers, or as captured, with a reason, where AOTAutograd has no way."""
    graph_module = nested_regions.with_inlined_regions(graph_module)
    if input_aliasing.has_aliased_wrapper(example_inputs):
        return as_captured(graph_module, input_aliasing.REASON)
    if unused_rng.has_unused_rng(graph_module):
        return as_captured(graph_module, unused_rng.REASON)
    if self_overlapping_writes.writes_to_self_overlapping_view(graph_module):
        return as_captured(graph_module, self_overlapping_writes.REASON)
    if hidden_writes.writes_through_data(graph_module):
        return as_captured(graph_module, hidden_writes.REASON)
    if any(node.target is torch.set_default_dtype for node in graph_module.graph.nodes):
        return as_captured(graph_module, "the graph sets the default dtype, which no ATen operator does")
    try:
        return compile_graph(graph_module, example_inputs, compilers, mutate_in_graph=True, **more)
    except NeedsEagerFallback as reason:
        return as_captured(graph_module, str(reason))
    except Exception as error:
        asked_by_torch = torch_internals.is_traced_by_torch()
        # Eager asks for derivatives one by one, and only for those that are wanted; here the whole one failed.
        of_derivative = (
            isinstance(error, RuntimeError) and torch.is_grad_enabled() and any(map(requires_grad, example_inputs))
        )
        asks_again = torch_internals.floats_to_be_constant(error) is not None
        if asked_by_torch or asks_again or not (of_derivative or torch_internals.is_limit_of_tracing(error)):
            raise
        text = f"AOTAutograd cannot trace the graph ({type(error).__name__}: {str(error).partition(chr(10))[0]})"
        warnings.warn(errors.GeneratedCodeWarning(f"{text}: it runs as it was captured"), stacklevel=2)
        return as_captured(graph_module, text)


def _improve(graph_module: torch.fx.GraphModule) -> tuple[str, ...]:
    rewrites = (fuse_attention, mark_channels_last)
    return tuple(
        text for rewrite in rewrites if fuel.allows("pass", rewrite.__name__) for text in rewrite(graph_module)
    )


def is_one_autograd_function(backend: str | Backend) -> bool:
    """True if it is one of ours that make one node of the autograd graph of all the operators of a captured graph.

    Between two results of such a node there is no path: neither can be differentiated by the other.
    """
    return backend in ("aot_eager", "aot_eager_decomp_partition", "inductor")


def as_captured(graph_module: torch.fx.GraphModule, reason: str) -> Callable[..., Any]:
    """The captured graph operator by operator, in the place of what a backend would have made; the record says why."""
    note(f"{reason}: the graph runs as it was captured")
    runnable = checkpoints.with_eager_checkpoints(graph_module)
    compiled_artifact.fall_back_to_eager(runnable)
    return hidden(torch_internals.forward_of(runnable))


def nbcompile(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any], **keywords: Any) -> Callable[..., Any]:
    """Our code generator under the real ``torch.compile(f, backend="nbcompile")``."""
    return inductor(graph_module, example_inputs, **keywords)


def read_settings(mode: str | None, options: Mapping[str, object]) -> BackendOptions:
    """``mode=...`` and ``options={...}`` of our own backend, as a dataclass.

    Raises:
        errors.InvalidMode, errors.InvalidBackendOption: a name that is not known.
    """
    if mode is not None and mode not in MODES:
        raise errors.InvalidMode(mode, MODES)
    known = tuple(each.name for each in fields(BackendOptions))
    for name in options:
        if name not in known:
            raise errors.InvalidBackendOption(name, known)
    return BackendOptions(**options)  # type: ignore[arg-type]


def _compilers(
    compile_one: CompileOne,
    captured: torch.fx.GraphModule,
    rewrite: Callable[[torch.fx.GraphModule], tuple[str, ...]] | None = None,
) -> Compilers:
    """The three compilers that AOTAutograd calls, each of which tells the record about its graph first.

    ``rewrite`` improves a graph for inference, and says what it did.
    """

    def compiler(stage: str) -> Callable[[torch.fx.GraphModule, Sequence[Any]], BoxedFunction]:
        def compile_and_record(graph_module: torch.fx.GraphModule, examples: Sequence[Any]) -> BoxedFunction:
            if rewrite is not None and stage == "inference":
                rewrite_and_record(graph_module, rewrite, captured)
            record_graph(graph_module, stage, captured)
            return compile_one(graph_module, examples, stage)

        return compile_and_record

    return Compilers(
        forward=compiler("forward"),
        backward=compiler("backward"),
        inference=compiler("inference"),
        on_joint_graph=lambda joint: record_graph(joint, "joint", captured),
        concurrently=toolchain.builds.doing,
    )


# --- one ATen graph --------------------------------------------------------------------------------------------------


def compile_aten_graph(
    graph_module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    stage: str = "inference",
    options: BackendOptions = DEFAULTS,
) -> BoxedFunction:
    """Generated code for one functional graph; what cannot be generated runs through ATen, and the record says why."""
    compiled = _generated_or_aten(graph_module, example_inputs, stage, options)
    if options.verify and (options.fallback_random or not _draws(graph_module)):
        compiled = verified(compiled, run_through_aten(graph_module, example_inputs, stage), stage)
    return compiled


def _draws(graph_module: torch.fx.GraphModule) -> bool:
    """True if random numbers are drawn."""
    targets = (node.target for node in graph_module.graph.nodes)
    return any(torch.Tag.nondeterministic_seeded in getattr(target, "tags", ()) for target in targets)


def _generated_or_aten(
    graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any], stage: str, options: BackendOptions
) -> BoxedFunction:
    if not fuel.allows("graph", f"{stage} graph of {len(graph_module.graph.nodes)} nodes"):
        note("bisection: the graph runs through ATen")
        return run_through_aten(graph_module, example_inputs, stage)
    compiler = None if options.target else toolchain.find()
    obstacle = obstacle_to(options.target)
    if obstacle:
        note(f"{obstacle}: the graph runs through ATen")
        _warn_once(f"{obstacle}: graphs run through ATen, operator by operator")
        return run_through_aten(graph_module, example_inputs, stage)
    if isinstance(compiler, toolchain.NoCompiler):
        note(f"{compiler.reason}: the graph runs through ATen")
        _warn_once(f"{compiler.reason}: graphs run through ATen, operator by operator")
        return run_through_aten(graph_module, example_inputs, stage)
    try:
        if compiler is None:
            return generate_for_gpu(graph_module, example_inputs, stage, options)
        if is_on_gpu(graph_module):
            return generate_on_gpu(graph_module, example_inputs, stage, compiler, options)
        return generate(graph_module, example_inputs, stage, compiler, options)
    except (UnsupportedGraph, UnprintableIndex) as reason:
        note(f"{reason}: the graph runs through ATen")
    except Exception as error:  # noqa: BLE001  whatever our mistake is, the user's program goes on
        last = traceback.extract_tb(error.__traceback__)[-1]
        about = f"{type(error).__name__}: {error}, in {Path(last.filename).name}, {last.name}"
        text = f"code generation failed ({about}): the {stage} graph runs through ATen"
        note(text)
        warnings.warn(errors.GeneratedCodeWarning(text), stacklevel=2)
    return run_through_aten(graph_module, example_inputs, stage)


@functools.cache
def _warn_once(text: str) -> None:
    warnings.warn(errors.GeneratedCodeWarning(text), stacklevel=2)


def generate(
    graph_module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    stage: str,
    compiler: toolchain.Compiler,
    options: BackendOptions = DEFAULTS,
) -> BoxedFunction:
    """The four stages in a row: buffers, kernels in order, source text, a callable.

    Raises:
        UnsupportedGraph: this graph cannot be lowered (a sparse tensor, a device without a code generator).
    """
    with recorder.stage("lowering"):
        program = lower(
            graph_module, example_inputs, keep_sharing=stage == "inference", own_random=not options.fallback_random
        )
    with recorder.stage("scheduling"):
        planned = schedule(program)
    for kernel in planned.kernels():
        if kernel.device.type != "cpu":
            raise UnsupportedGraph(f"there is no code generator for the device {kernel.device}")
    with recorder.stage("codegen"):
        emitted = cpp.emit(planned)
        emitted = replace(emitted, ranges=profiler_ranges(graph_module, stage, emitted))
    record_generated(graph_module, stage, emitted)
    with recorder.stage("build"), torch_internals.dispatch_modes()._disable_current_modes():
        return load(emitted, compiler, functools.partial(attribute_of, graph_module), opaque_values(planned))


def verified(compiled: BoxedFunction, reference: BoxedFunction, stage: str) -> BoxedFunction:
    """``compiled``, compared with ``reference`` at every call (same inputs, same random state).

    Raises, when called:
        errors.VerificationFailed: they differ by more than rounding.
    """

    def run(arguments: list[Any]) -> Sequence[Any]:
        copies = [each.clone() if isinstance(each, torch.Tensor) else each for each in arguments]
        with torch.random.fork_rng():
            expected = reference(copies)
        results = compiled(arguments)
        try:
            torch.testing.assert_close(tuple(results), tuple(expected), equal_nan=True, check_stride=True)
        except AssertionError as difference:
            raise errors.VerificationFailed(stage, str(difference)) from None
        return results

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def compiler_name() -> str:
    """The C++ compiler's own name for itself; "" where there is none."""
    compiler = toolchain.find()
    return compiler.version if isinstance(compiler, toolchain.Compiler) else ""
