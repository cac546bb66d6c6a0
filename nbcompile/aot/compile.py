"""AOTAutograd's stage: from a captured graph to a callable over real inputs, forward and backward.

    captured   relu(x @ w).sum()                     calls of torch, as the user wrote them
    joint      mm, relu, sum | expand, le, where, mm, mm   functional ATen, with the derivative
    forward    mm, relu, sum            -> compiled by ``compilers.forward``
    backward   expand, le, where, mm    -> compiled by ``compilers.backward``
    callable   an autograd.Function over the two; ``loss.backward()`` works outside

Where a graph mutates or aliases, AOTAutograd does the work: it functionalises in-place operators, finds which
inputs are mutated and which outputs alias, differentiates and partitions the graph. A graph
that needs none of it is traced once instead of twice (fast/inference_tracer.py, for training fast/joint_tracer.py and
partition.py). AOTAutograd's runtime wrapper costs 2.9 us per call, 8 us with gradients; most
graphs are called directly (0.3 us), or through the part of it that they need (runtime_wrapper.py).

In torch: torch/_functorch/aot_autograd.py. Read next: nbcompile/aot/traced_graphs.py
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from nbcompile import hooks, torch_internals
from nbcompile.aot import checks, input_aliasing, partition, passes, provenance, runtime_wrapper
from nbcompile.aot.decompositions import Table
from nbcompile.aot.graph_calls import is_in_place, name_of_target
from nbcompile.aot.runtime_metadata import RuntimeMetadata, dynamic_dims, runtime_metadata_of
from nbcompile.aot.traced_graphs import InferenceGraph, JointGraph
from nbcompile.capture import operator_warnings
from nbcompile.ir import compiled_artifact
from nbcompile.support import fuel
from nbcompile.torch_internals import interrupts

BoxedFunction = Callable[[list[Any]], Sequence[Any]]
"""A function that takes its arguments in a list and empties it, so that they are freed as early as possible."""
GraphCompiler = Callable[[torch.fx.GraphModule, Sequence[Any]], BoxedFunction]
CompiledFunction = Callable[..., Sequence[Any]]

# Compile the backward graph now, not in the first backward(): errors and pictures come with the forward's.
# Common subexpressions are eliminated by our own pass: torch's imports Inductor.
AUTOGRAD_SETTINGS = {"force_non_lazy_backward_lowering": True, "cse": False}


def _ignore(_module: torch.fx.GraphModule) -> None:
    """Default observer of the joint graph."""


@contextlib.contextmanager
def _run_afterwards(task: Callable[[], object]) -> Iterator[None]:
    yield
    task()


@dataclass(frozen=True, slots=True)
class Compilers:
    """Compilers of the ATen graphs, and the observer of the joint graph."""

    forward: GraphCompiler
    backward: GraphCompiler
    inference: GraphCompiler
    on_joint_graph: Callable[[torch.fx.GraphModule], None] = _ignore
    concurrently: Callable[[Callable[[], object]], contextlib.AbstractContextManager[None]] = _run_afterwards
    """Context manager that runs a task by the end of its block, while the block waits for a C++ compiler if it does."""


SIZES_CHANGE_REASON = "an in-place operator changes the sizes or strides of an input (unsqueeze_, t_, ...)"


def compile_graph(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    compilers: Compilers,
    *,
    decompositions: Table | None = None,
    recompute: bool = True,
    mutate_in_graph: bool = False,
) -> CompiledFunction:
    """Compile a captured graph, for inference or for training as its inputs and the grad mode ask.

    Args:
        module: the captured graph; returns a tuple; parameters and buffers are placeholders.
        example_inputs: tensors (fake or real) and ints (symbolic or not), one per placeholder, as they
            are *before* the graph runs (a fake tensor that tracing mutated would mislead).
        compilers: get functional graphs of ATen operators.
        decompositions: operators to be written in terms of simpler ones.
        recompute: partition the joint graph by a minimum cut, so that the backward recomputes cheap values
            instead of saving them; otherwise save what eager saves.
        mutate_in_graph: a mutated input is written by the graph itself (``aten.copy_`` at its end), which
            may then fuse; otherwise the new value is returned, and copied after the graph has run.
    """
    _check_returns_tuple(module)
    _check_no_as_strided_write(module.graph)
    provenance.mark_captured(module.graph)
    checks.keep(module)
    with torch_internals.without_own_context(), operator_warnings.shown_before(module):
        return _compile(module, example_inputs, compilers, decompositions or {}, recompute, mutate_in_graph)


def _compile(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    compilers: Compilers,
    table: Table,
    recompute: bool,
    mutate_in_graph: bool,
) -> CompiledFunction:
    if _has_dynamo_symbols(module):
        return _compile_with_aot_autograd(module, example_inputs, compilers, table, recompute, mutate_in_graph)
    compiled = _compile_without_aot_autograd(module, example_inputs, compilers, table, recompute, mutate_in_graph)
    if compiled is not None:
        return compiled
    try:
        return _compile_with_aot_autograd(module, example_inputs, compilers, table, recompute, mutate_in_graph)
    except torch_internals.fake_tensor().DynamicOutputShapeException:
        if torch_internals.is_traced_by_torch():
            raise  # called by the real torch.compile, which handles it
    # The derivative of x[mask] = y has data-dependent sizes: allow unbacked symbols now.
    inputs = torch_internals.with_unknown_sizes(example_inputs)
    return _compile_with_aot_autograd(module, inputs, compilers, table, recompute, mutate_in_graph)


def _compile_without_aot_autograd(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    compilers: Compilers,
    table: Table,
    recompute: bool,
    mutate_in_graph: bool,
) -> CompiledFunction | None:
    """Compile a graph that a hook traces without AOTAutograd; None where AOTAutograd has to trace it."""
    with interrupts.deferred():
        recorded = hooks.active().trace_inference(module, example_inputs, table, allow_mutation=mutate_in_graph)
    if recorded is not None:
        _check_no_aliases(recorded.written, example_inputs)
        provenance.mark_origins(recorded.module.graph, module.graph)
        compiled = compilers.inference(recorded.module, example_inputs)
        compiled_artifact.set_role("inference")
        return _with_alias_check(_wrap_inference(compiled, recorded), module, recorded.written, example_inputs)
    with interrupts.deferred():
        joint_graph = hooks.active().trace_joint(module, example_inputs, table)
    if joint_graph is None:
        return None
    return _partition_and_compile(joint_graph, module, example_inputs, compilers, recompute)


def _has_dynamo_symbols(module: torch.fx.GraphModule) -> bool:
    """Return whether the caller is the real torch.compile with dynamic sizes.

    It passes the tensors of this call; AOTAutograd finds the fake tensors with symbolic sizes in the context.
    """
    if not torch_internals.is_traced_by_torch():
        return False
    values = (node.meta.get("example_value") for node in module.graph.find_nodes(op="placeholder"))
    return any(map(_is_symbolic, values))


def _is_symbolic(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        strides = value.stride() if value.layout is torch.strided else ()
        return any(map(_is_symbolic, (*value.shape, *strides)))
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def _wrap_inference(compiled: BoxedFunction, recorded: InferenceGraph) -> CompiledFunction:
    outputs: Any = recorded.module.graph.output_node().args[0]
    dynamic = dynamic_dims(node.meta["val"] for node in outputs)
    if not recorded.written and not any(dynamic):
        compiled_artifact.set_wrapper("direct")
        return runtime_wrapper.unboxed(compiled)
    runtime_metadata = RuntimeMetadata(dynamic, recorded.written)
    compiled_artifact.set_wrapper("inference", runtime_metadata)
    if recorded.written:
        return runtime_wrapper.wrap_inference(compiled, runtime_metadata)
    return runtime_wrapper.mark_dynamic_outputs(runtime_wrapper.unboxed(compiled), dynamic)


def _check_no_aliases(mutated: Sequence[int], example_inputs: Sequence[Any]) -> None:
    """Check that no other input shares memory with one that is mutated."""
    if mutated and input_aliasing.share_storage(mutated, example_inputs):
        raise NeedsEagerFallback(input_aliasing.REASON)


def _with_alias_check(
    compiled: CompiledFunction, module: torch.fx.GraphModule, mutated: Sequence[int], example_inputs: Sequence[Any]
) -> CompiledFunction:
    """Wrap the compiled graph so that calls whose inputs overlap fall back to eager, if inputs can overlap."""
    if not input_aliasing.may_overlap(mutated, example_inputs):
        return compiled
    inputs = input_aliasing.alias_check(mutated, example_inputs)
    compiled_artifact.set_alias_check(module, inputs)
    return input_aliasing.with_alias_check(compiled, module.forward, inputs)


def _partition_and_compile(
    traced: JointGraph,
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    compilers: Compilers,
    recompute: bool,
) -> CompiledFunction | None:
    """Partition a joint graph and compile both parts; None if AOTAutograd has to partition it."""
    _check_grad_mode_ops(traced.graph)
    provenance.mark_origins(traced.graph.graph, module.graph)
    compilers.on_joint_graph(traced.graph)
    static_inputs: frozenset[int] | None = None
    if recompute:
        passes.remove_detach(traced.graph)
        passes.make_complex_literals_exact(traced.graph)
        if fuel.allows("pass", "eliminate_common_subexpressions"):
            passes.eliminate_common_subexpressions(traced.graph)
        static_inputs = frozenset(at for at, each in enumerate(example_inputs) if isinstance(each, torch.nn.Parameter))
    partitioned = partition.partition_joint_graph(traced.graph.graph, len(traced.outputs), static_inputs)
    if partitioned is None:
        return None
    forward, backward, saved, numbers = partitioned
    programs: dict[str, BoxedFunction] = {}

    def compile_half(role: str, graph: torch.fx.Graph, compile_one: GraphCompiler) -> None:
        half = torch_internals.as_module(graph)
        examples = [node.meta["val"] for node in graph.find_nodes(op="placeholder")]
        programs[role] = compile_one(half, examples)

    # Generate the backward's code while the C++ compiler builds the forward's.
    with compilers.concurrently(lambda: compile_half("backward", backward, compilers.backward)):
        compile_half("forward", forward, compilers.forward)
    for role in ("forward", "backward"):
        compiled_artifact.set_role(role)
    runtime_metadata = traced.runtime_metadata(saved, numbers, example_inputs)
    compiled_artifact.set_wrapper("training", runtime_metadata)
    return runtime_wrapper.wrap_training(programs["forward"], programs["backward"], runtime_metadata)


class NeedsEagerFallback(Exception):
    """AOTAutograd would compute something else than eager; the text says why."""


GRAD_MODE_DEPENDENT_OPS = frozenset({torch.ops.aten.mkldnn_rnn_layer.default})
"""Operators that save values for backward only in grad mode, which is off inside an autograd.Function."""


def _check_grad_mode_ops(joint: torch.fx.GraphModule) -> None:
    for node in joint.graph.nodes:
        if node.target in GRAD_MODE_DEPENDENT_OPS:
            raise NeedsEagerFallback(f"{node.target} saves values for backward only in grad mode")


AS_STRIDED_WRITE_REASON = "the graph mutates a tensor, and as_strided makes views of any memory"


def _check_no_as_strided_write(graph: torch.fx.Graph) -> None:
    """Check that nothing is mutated next to as_strided: functionalisation ignores memory outside of its base tensor."""
    names = {name_of_target(node).partition(".")[0] for node in graph.nodes if node.op.startswith("call_")}
    if names & {"as_strided", "as_strided_"} and any(
        is_in_place(node) or "out" in node.kwargs
        for node in graph.nodes
        if node.op.startswith("call_") and name_of_target(node) != "as_strided_"
    ):
        raise NeedsEagerFallback(AS_STRIDED_WRITE_REASON)


def _check_returns_tuple(module: torch.fx.GraphModule) -> None:
    (output,) = module.graph.find_nodes(op="output")
    if not isinstance(output.args[0], (tuple, list)):
        raise TypeError(f"a captured graph returns a tuple, not {output.args[0]!r}")


def _compile_with_aot_autograd(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    compilers: Compilers,
    table: Table,
    recompute: bool,
    mutate_in_graph: bool,
) -> CompiledFunction:
    internals = torch_internals.guards_context()
    inference_programs: list[BoxedFunction] = []
    halves: dict[str, BoxedFunction] = {}
    inputs_without_gradient: list[int] = []
    count = len(example_inputs)  # the closures below do not refer to the inputs: torch 2.11 leaves them in a cycle

    def compiler(role: str, compile_one: GraphCompiler) -> GraphCompiler:
        def compile_and_name(graph: torch.fx.GraphModule, examples: Sequence[Any]) -> BoxedFunction:
            with interrupts.allowed():
                compiled = compile_one(graph, examples)
            compiled_artifact.set_role(role)
            return compiled

        return compile_and_name

    def inference(graph: torch.fx.GraphModule, examples: Sequence[Any]) -> BoxedFunction:
        provenance.mark_origins(graph.graph, module.graph)
        compiled = compilers.inference(graph, examples)
        if len(examples) == count:
            inference_programs.append(compiled)
        return compiled

    def half(role: str, compile_one: GraphCompiler) -> GraphCompiler:
        def compile_and_keep(graph: torch.fx.GraphModule, examples: Sequence[Any]) -> BoxedFunction:
            halves[role] = compile_one(graph, examples)
            return halves[role]

        return compiler(role, compile_and_keep)

    def partition_and_mark(whole: torch.fx.GraphModule, *arguments: Any, **keywords: Any) -> Any:
        _check_grad_mode_ops(whole)
        provenance.mark_origins(whole.graph, module.graph)
        compilers.on_joint_graph(whole)
        partitioners = torch_internals.partitioners()
        if recompute:
            passes.remove_detach(whole)
            whole.graph.eliminate_dead_code()
            passes.make_complex_literals_exact(whole)
            if fuel.allows("pass", "eliminate_common_subexpressions"):
                passes.eliminate_common_subexpressions(whole)
            forward, backward = partitioners.min_cut_rematerialization_partition(whole, *arguments, **keywords)
        else:
            forward, backward = partitioners.default_partition(whole, *arguments, **keywords)
        provenance.copy_origins_to_backward(whole.graph, backward.graph)
        (output,) = backward.graph.find_nodes(op="output")
        inputs_without_gradient.extend(at for at, each in enumerate(output.args[0]) if each is None)
        return forward, backward

    with contextlib.ExitStack() as stack:
        stack.enter_context(interrupts.deferred())
        stack.enter_context(torch_internals.lazy_graph_module()._use_lazy_graph_module(True))
        if not torch_internals.is_traced_by_torch():
            fake_mode = internals.detect_fake_mode(example_inputs)
            if fake_mode is None:
                fake_mode = torch_internals.fake_tensor().FakeTensorMode()
            stack.enter_context(internals.tracing(internals.TracingContext(fake_mode)))
        stack.enter_context(torch_internals.functorch_config().patch(AUTOGRAD_SETTINGS))
        wrapped: CompiledFunction = torch_internals.aot_autograd().aot_module_simplified(
            module,
            list(example_inputs),
            fw_compiler=half("forward", compilers.forward),
            bw_compiler=half("backward", compilers.backward),
            inference_compiler=compiler("inference", inference),
            partition_fn=partition_and_mark,
            decompositions=dict(table),
            keep_inference_input_mutations=mutate_in_graph,
        )
        metadata = internals.TracingContext.get().fw_metadata
    if metadata is not None and metadata.bw_donated_idxs:
        # Our backward graphs do not use donated buffers as scratch memory, so backward(retain_graph=True) is fine.
        metadata.bw_donated_idxs.clear()
    if metadata is not None and any(each.mutates_metadata for each in metadata.input_info):
        # AOTAutograd sets the input to the strides of the graph's result, but our graphs choose strides, and return
        # the input itself where a result has its layout: x.unsqueeze_(0); return x[0] had one dimension too many.
        raise NeedsEagerFallback(SIZES_CHANGE_REASON)
    mutated = [at for at, each in enumerate(metadata.input_info) if each.mutates_data] if metadata else []
    if mutated:
        if len(metadata.input_info) != count:
            raise NeedsEagerFallback(input_aliasing.REASON)
        _check_no_aliases(mutated, example_inputs)
        if input_aliasing.loses_offset(metadata, example_inputs):
            raise NeedsEagerFallback(input_aliasing.OFFSET_REASON)
    if inference_programs and _needs_no_wrapper(metadata, module, example_inputs):
        compiled_artifact.set_wrapper("direct")
        return _with_alias_check(runtime_wrapper.unboxed(inference_programs[0]), module, mutated, example_inputs)
    has_subclass = metadata is None or any(is_subclass(each) for each in (*example_inputs, *_results(module)))
    compiled = (
        wrapped
        if has_subclass
        else _wrap_programs(metadata, inference_programs, halves, inputs_without_gradient, count)
    )
    if has_subclass:
        compiled_artifact.refuse("AOTAutograd flattens tensor subclasses, and builds them again")
    return _with_alias_check(compiled or wrapped, module, mutated, example_inputs)


def _wrap_programs(
    metadata: Any,
    inference_programs: list[BoxedFunction],
    halves: dict[str, BoxedFunction],
    inputs_without_gradient: list[int],
    count: int,
) -> CompiledFunction | None:
    """Wrap the programs by our own runtime wrapper; None where AOTAutograd's is needed."""
    runtime_metadata = runtime_metadata_of(metadata, None if inference_programs else inputs_without_gradient, count)
    if isinstance(runtime_metadata, str):
        compiled_artifact.refuse(runtime_metadata)
        return None
    compiled_artifact.set_wrapper("inference" if inference_programs else "training", runtime_metadata)
    if runtime_metadata.aliased_outputs:
        return None  # AOTAutograd replays the view; a later process makes it by sizes, strides and offset
    if inference_programs:
        return runtime_wrapper.wrap_inference(inference_programs[0], runtime_metadata)
    return (
        runtime_wrapper.wrap_training(halves["forward"], halves["backward"], runtime_metadata)
        if len(halves) == 2
        else None
    )


def _needs_no_wrapper(metadata: Any, module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> bool:
    """Return whether AOTAutograd's runtime wrapper would only forward arguments and results."""
    return (
        metadata is not None
        and metadata.num_mutated_inp_runtime_indices == 0
        and metadata.num_outputs_aliased == 0
        and metadata.num_intermediate_bases == 0
        and metadata.grad_enabled_mutation is None
        and not metadata.dynamic_outputs
        and not metadata.tokens
        and not metadata.mutated_graph_handled_indices
        and not torch_internals.waits_for_collectives(metadata)
        and not any(is_subclass(each) for each in (*example_inputs, *_results(module)))
        and not torch._C._is_any_autocast_enabled()
    )


def _results(module: torch.fx.GraphModule) -> Iterator[object]:
    """Example values of the captured graph's results, where its nodes have any."""
    for node in module.graph.output_node().all_input_nodes:
        yield node.meta.get("example_value", node.meta.get("val"))


def is_subclass(value: object) -> bool:
    """Return whether a value is a tensor subclass that AOTAutograd would flatten into plain tensors."""
    return isinstance(value, torch.Tensor) and not torch_internals.is_plain(value)
