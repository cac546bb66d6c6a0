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

from collections.abc import Sequence
from typing import Any

import torch
import torch.fx

from nbcompile import hooks, torch_internals
from nbcompile.aot import checks, donated_buffers, exposed_memory, partition, passes, provenance, runtime_wrapper
from nbcompile.aot.aot_autograd import compile_with_aot_autograd
from nbcompile.aot.compilers import BoxedFunction, CompiledFunction, Compilers, GraphCompiler
from nbcompile.aot.decompositions import Table
from nbcompile.aot.eager_fallback import (
    check_grad_mode_ops,
    check_no_aliases,
    check_no_as_strided_write,
    with_alias_check,
)
from nbcompile.aot.input_metadata import changes_metadata
from nbcompile.aot.runtime_metadata import RuntimeMetadata, dynamic_dims
from nbcompile.aot.traced_graphs import InferenceGraph, JointGraph
from nbcompile.capture import operator_warnings
from nbcompile.ir import compiled_artifact
from nbcompile.support import fuel
from nbcompile.torch_internals import interrupts


def compile_graph(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    compilers: Compilers,
    *,
    decompositions: Table | None = None,
    recompute: bool = True,
    mutate_in_graph: bool = False,
) -> CompiledFunction:
    """Compile a captured graph, for inference or for training, depending on its inputs and the grad mode.

    Args:
        module: the captured graph; returns a tuple; parameters and buffers are placeholders.
        example_inputs: tensors (fake or real) and ints (symbolic or not), one per placeholder, in their
        state *before* the graph runs (a fake tensor that tracing mutated has another one).
        compilers: functions that compile functional graphs of ATen operators.
        decompositions: functions that compute an operator by simpler ones.
        recompute: partition the joint graph by a minimum cut, so that the backward recomputes cheap values
            instead of saving them; otherwise save what eager saves.
        mutate_in_graph: a mutated input is written by the graph itself (``aten.copy_`` at its end), which
            may then fuse; otherwise the new value is returned, and copied after the graph has run.
    """
    _check_returns_tuple(module)
    check_no_as_strided_write(module.graph)
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
    # The graph cannot copy values into an input whose sizes it has changed: the wrapper around it does.
    mutate_in_graph = mutate_in_graph and not any(map(changes_metadata, module.graph.nodes))
    #     1  a tracer of ours, for inference or training    most graphs
    #     2  AOTAutograd                                     in-place operators, aliases, subclasses
    #     3  AOTAutograd with unbacked sizes                 a derivative whose sizes depend on data
    if _has_dynamo_symbols(module) or torch_internals.records_backward():
        return compile_with_aot_autograd(module, example_inputs, compilers, table, recompute, mutate_in_graph)
    compiled = _compile_without_aot_autograd(module, example_inputs, compilers, table, recompute, mutate_in_graph)
    if compiled is not None:
        return compiled
    try:
        return compile_with_aot_autograd(module, example_inputs, compilers, table, recompute, mutate_in_graph)
    except torch_internals.fake_tensor().DynamicOutputShapeException:
        if torch_internals.is_traced_by_torch():
            raise  # called by the real torch.compile, which handles it
    # The derivative of x[mask] = y has data-dependent sizes: allow unbacked symbols now.
    inputs = torch_internals.with_unknown_sizes(example_inputs)
    return compile_with_aot_autograd(module, inputs, compilers, table, recompute, mutate_in_graph)


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
        check_no_aliases(recorded.written, example_inputs)
        provenance.mark_origins(recorded.module.graph, module.graph)
        compiled = compilers.inference(recorded.module, example_inputs)
        compiled_artifact.set_role("inference")
        return with_alias_check(_wrap_inference(compiled, recorded), module, recorded.written, example_inputs)
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
    # Versions of the written inputs have to be bumped at each call.
    if recorded.written:
        return runtime_wrapper.wrap_inference(compiled, runtime_metadata)
    return runtime_wrapper.mark_dynamic_outputs(runtime_wrapper.unboxed(compiled), dynamic)


def _partition_and_compile(
    traced: JointGraph,
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    compilers: Compilers,
    recompute: bool,
) -> CompiledFunction | None:
    """Partition a joint graph and compile both parts; None if AOTAutograd has to partition it."""
    check_grad_mode_ops(traced.graph)
    provenance.mark_origins(traced.graph.graph, module.graph)
    compilers.on_joint_graph(traced.graph)
    static_inputs: frozenset[int] | None = None
    if recompute:
        passes.remove_detach(traced.graph)
        passes.make_complex_literals_exact(traced.graph)
        # Before the partition: the backward then shares with the forward the values that both compute.
        if fuel.allows("pass", "eliminate_common_subexpressions"):
            passes.eliminate_common_subexpressions(traced.graph)
        # A parameter lives as long as its module: to save it for the backward costs no memory.
        static_inputs = frozenset(at for at, each in enumerate(example_inputs) if isinstance(each, torch.nn.Parameter))
    partitioned = partition.partition_joint_graph(traced.graph.graph, len(traced.outputs), static_inputs)
    if partitioned is None:
        return None
    forward, backward, saved, numbers = partitioned
    saves_intermediates = donated_buffers.mark(forward, backward, len(traced.outputs))
    shared = exposed_memory.shared_with_results(forward, len(traced.outputs))
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
    runtime_metadata = traced.runtime_metadata(saved, numbers, example_inputs, saves_intermediates, shared)
    compiled_artifact.set_wrapper("training", runtime_metadata)
    return runtime_wrapper.wrap_training(programs["forward"], programs["backward"], runtime_metadata)


def _check_returns_tuple(module: torch.fx.GraphModule) -> None:
    (output,) = module.graph.find_nodes(op="output")
    if not isinstance(output.args[0], (tuple, list)):
        raise TypeError(f"a captured graph returns a tuple, not {output.args[0]!r}")
