"""A captured graph through torch's own AOTAutograd: functionalised, differentiated and partitioned by it.

    captured  -->  aot_module_simplified  -->  inference(graph)                    one graph, or
                                               partition(joint graph)              forward and backward,
                                               forward(graph), backward(graph)     each compiled by a callback
              <--  a wrapper of ours (0.3 us a call), or torch's (2.9 to 8 us) where a part of it is needed

In torch: torch/_functorch/aot_autograd.py. Read next: nbcompile/aot/runtime_wrapper.py
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx

from nbcompile import torch_internals
from nbcompile.aot import (
    donated_buffers,
    exposed_memory,
    graph_calls,
    input_aliasing,
    passes,
    provenance,
    runtime_wrapper,
    saved_views,
    view_replay,
)
from nbcompile.aot.compilers import BoxedFunction, CompiledFunction, Compilers, GraphCompiler
from nbcompile.aot.decompositions import Table, of_some_dtypes
from nbcompile.aot.eager_fallback import (
    NeedsEagerFallback,
    check_grad_mode_ops,
    check_no_aliases,
    check_no_views_in_inference_mode,
    with_alias_check,
)
from nbcompile.aot.runtime_metadata import AliasedOutput, RuntimeMetadata, runtime_metadata_of
from nbcompile.ir import compiled_artifact
from nbcompile.support import fuel
from nbcompile.torch_internals import interrupts
from nbcompile.torch_internals.operators import without_decomposing_kernels

SIZES_CHANGE_REASON = "an in-place operator changes the sizes or strides of an input (unsqueeze_, t_, ...)"


# Compile the backward graph now, not in the first backward(): its errors and its record come with the forward's.
# Common subexpressions are eliminated by our own pass: torch's imports Inductor.
AUTOGRAD_SETTINGS = {"force_non_lazy_backward_lowering": True, "cse": False, "unlift_effect_tokens": True}


def compile_with_aot_autograd(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    compilers: Compilers,
    table: Table,
    recompute: bool,
    mutate_in_graph: bool,
) -> CompiledFunction:
    """Trace, partition and compile a captured graph by torch's AOTAutograd; arguments as ``compile_graph``'s.

    Raises:
        NeedsEagerFallback: the compiled graph would not compute what eager mode computes.
    """
    check_no_views_in_inference_mode(module)
    count = len(example_inputs)
    callbacks = _Callbacks(module, compilers, recompute, count)
    wrapped, metadata = _call_aot_autograd(callbacks, example_inputs, table, mutate_in_graph)
    runtime_metadata = callbacks.runtime_metadata(metadata)
    mutated = _mutated_inputs(metadata, example_inputs)
    programs = callbacks.inference_programs
    #     wrapper of the compiled programs, the cheapest sufficient one:
    #     none          inference, nothing is mutated or aliased
    #     ours          runtime_wrapper.py, where runtime_metadata_of gives no reason against it
    #     AOTAutograd's all others: subclasses, tokens, mutation after the graph
    if programs and _needs_no_wrapper(metadata, module, example_inputs):
        compiled_artifact.set_wrapper("direct")
        return with_alias_check(runtime_wrapper.unboxed(programs[0]), module, mutated, example_inputs)
    if metadata is None or any(is_subclass(value) for value in (*example_inputs, *_results(module))):
        compiled_artifact.mark_not_storable("AOTAutograd flattens tensor subclasses, and builds them again")
        return with_alias_check(wrapped, module, mutated, example_inputs)
    assert runtime_metadata is not None
    if torch_internals.records_backward() and not programs:
        compiled_artifact.mark_not_storable("compiled autograd takes the backward graph from AOTAutograd's own wrapper")
        return with_alias_check(wrapped, module, mutated, example_inputs)
    only_views = _only_views(runtime_metadata, module, example_inputs, compilers)
    if only_views is not None:
        return with_alias_check(runtime_wrapper.unboxed(only_views), module, mutated, example_inputs)
    views = _views(runtime_metadata, module, example_inputs, compilers)
    compiled = _wrap_programs(runtime_metadata, programs, callbacks.halves, views)
    return with_alias_check(compiled or wrapped, module, mutated, example_inputs)


def _call_aot_autograd(
    callbacks: _Callbacks, example_inputs: Sequence[Any], table: Table, mutate_in_graph: bool
) -> tuple[CompiledFunction, Any]:
    """The callable that AOTAutograd builds of the compiled graphs, and its ViewAndMutationMeta, if it has one."""
    internals = torch_internals.guards_context()
    with contextlib.ExitStack() as stack:
        # An interrupt in torch's own code would leave its state half changed; our compilers
        # may be interrupted (_compile_as).
        stack.enter_context(interrupts.deferred())
        # Guards, and our wrappers of the compiled programs, read the mode in which the graph is called.
        stack.enter_context(torch_internals.kept_grad_mode())
        stack.enter_context(torch_internals.kept_dispatch_keys())
        stack.enter_context(torch_internals.lazy_graph_module()._use_lazy_graph_module(True))
        if not torch_internals.is_traced_by_torch():
            # AOTAutograd leaves its metadata in the tracing context, which is read below. Under the real
            # torch.compile there is one.
            fake_mode = internals.detect_fake_mode(example_inputs)
            if fake_mode is None:
                fake_mode = torch_internals.fake_tensor().FakeTensorMode()
            stack.enter_context(internals.tracing(internals.TracingContext(fake_mode)))
        stack.enter_context(torch_internals.functorch_config().patch(AUTOGRAD_SETTINGS))
        stack.enter_context(without_decomposing_kernels(of_some_dtypes() if table else ()))
        wrapped: CompiledFunction = torch_internals.aot_autograd().aot_module_simplified(
            callbacks.module,
            list(example_inputs),
            fw_compiler=callbacks.forward,
            bw_compiler=callbacks.backward,
            inference_compiler=callbacks.inference,
            partition_fn=callbacks.partition,
            decompositions=dict(table),
            keep_inference_input_mutations=mutate_in_graph,
        )
        return wrapped, internals.TracingContext.get().fw_metadata


@dataclass(frozen=True, slots=True)
class _Callbacks:
    """Functions that AOTAutograd calls while it compiles a graph, and the programs that they compiled.

    No field refers to the example inputs: torch 2.11 leaves the callbacks in a reference cycle.
    """

    module: torch.fx.GraphModule
    compilers: Compilers
    recompute: bool
    inputs: int
    """Number of the captured graph's inputs."""
    inference_programs: list[BoxedFunction] = field(default_factory=list)
    halves: dict[str, BoxedFunction] = field(default_factory=dict)
    """The compiled forward and backward graphs."""
    inputs_without_gradient: list[int] = field(default_factory=list)
    shared_with_outputs: list[tuple[int, int]] = field(default_factory=list)
    """Positions of saved tensors, and of the outputs in whose memory they are."""
    joint_results: list[int] = field(default_factory=list)
    """The number of results of the joint graph, tokens included."""

    def inference(self, graph: torch.fx.GraphModule, examples: Sequence[Any]) -> BoxedFunction:
        """Compile a graph that no gradient flows through."""
        provenance.mark_origins(graph.graph, self.module.graph)
        compiled = _compile_as("inference", self.compilers.inference, graph, examples)
        # With another number of inputs (the parts of a subclass, the common base of two views) the program cannot be
        # called with the captured graph's arguments.
        if len(examples) == self.inputs:
            self.inference_programs.append(compiled)
        return compiled

    def forward(self, graph: torch.fx.GraphModule, examples: Sequence[Any]) -> BoxedFunction:
        """Compile the half of the joint graph that the call runs."""
        self.halves["forward"] = _compile_as("forward", self.compilers.forward, graph, examples)
        return self.halves["forward"]

    def backward(self, graph: torch.fx.GraphModule, examples: Sequence[Any]) -> BoxedFunction:
        """Compile the half of the joint graph that autograd runs later."""
        self.halves["backward"] = _compile_as("backward", self.compilers.backward, graph, examples)
        return self.halves["backward"]

    def runtime_metadata(self, aot_metadata: Any) -> RuntimeMetadata | str | None:
        """Runtime metadata of the compiled programs, as of ``runtime_metadata_of``; None if AOTAutograd left none."""
        if aot_metadata is None:
            return None
        without_gradient = None if self.inference_programs else self.inputs_without_gradient
        edges = graph_calls.has_own_derivative(self.module)
        # The joint graph returns the tokens of effects before its other results; the programs return none.
        tokens = next(iter(self.joint_results), 0) - aot_metadata.num_forward_returns
        shared = [(at, position - tokens) for at, position in self.shared_with_outputs if position >= tokens]
        return runtime_metadata_of(aot_metadata, without_gradient, self.inputs, edges, shared)

    def partition(self, joint: torch.fx.GraphModule, *arguments: Any, **keywords: Any) -> Any:
        """Partition the joint graph into a forward and a backward graph."""
        check_grad_mode_ops(joint)
        provenance.mark_origins(joint.graph, self.module.graph)
        self.compilers.on_joint_graph(joint)
        partitioners = torch_internals.partitioners()
        if self.recompute:
            exposed_memory.mark_saved(joint.graph, keywords["num_fwd_outputs"])
            # detach(relu) and relu are one value: as two nodes both could be saved.
            passes.remove_detach(joint)
            joint.graph.eliminate_dead_code()
            passes.make_complex_literals_exact(joint)
            if fuel.allows("pass", "eliminate_common_subexpressions"):
                passes.eliminate_common_subexpressions(joint)
            exposed_memory.must_save_exposed_readers(joint.graph, keywords["num_fwd_outputs"])
            forward, backward = partitioners.min_cut_rematerialization_partition(joint, *arguments, **keywords)
        else:
            # Saves what eager mode saves.
            forward, backward = partitioners.default_partition(joint, *arguments, **keywords)
        provenance.copy_origins_to_backward(joint.graph, backward.graph)
        saved_views.save_inputs(forward.graph, backward.graph, keywords["num_fwd_outputs"])
        donated_buffers.mark(forward.graph, backward.graph, keywords["num_fwd_outputs"])
        self.joint_results.append(keywords["num_fwd_outputs"])
        self.shared_with_outputs.extend(exposed_memory.shared_with_results(forward.graph, keywords["num_fwd_outputs"]))
        (output,) = backward.graph.find_nodes(op="output")
        # None in the output of the backward graph is an input that needs no gradient.
        self.inputs_without_gradient.extend(at for at, gradient in enumerate(output.args[0]) if gradient is None)
        return forward, backward


def _compile_as(
    role: str, compile_one: GraphCompiler, graph: torch.fx.GraphModule, examples: Sequence[Any]
) -> BoxedFunction:
    with interrupts.allowed():
        compiled = compile_one(graph, examples)
    compiled_artifact.set_role(role)
    return compiled


def _mutated_inputs(metadata: Any, example_inputs: Sequence[Any]) -> list[int]:
    """Positions of the inputs that the graph writes to.

    Raises:
        NeedsEagerFallback: a write that the runtime wrapper could not apply as eager mode does.
    """
    if metadata is None:
        return []
    if metadata.bw_donated_idxs and not runtime_wrapper.donation_is_requested():
        # Our backward graphs do not use donated buffers as scratch memory, so backward(retain_graph=True) is fine.
        metadata.bw_donated_idxs.clear()
    if any(info.mutates_metadata for info in metadata.input_info):
        # AOTAutograd sets the input to the strides of the graph's result, but our graphs choose strides, and return
        # the input itself where a result has its layout: x.unsqueeze_(0); return x[0] had one dimension too many.
        raise NeedsEagerFallback(SIZES_CHANGE_REASON)
    mutated = [at for at, info in enumerate(metadata.input_info) if info.mutates_data]
    if mutated:
        # AOTAutograd replaced aliased inputs by their common base, so positions do not agree.
        if len(metadata.input_info) != len(example_inputs):
            raise NeedsEagerFallback(input_aliasing.REASON)
        check_no_aliases(mutated, example_inputs)
        if input_aliasing.loses_offset(metadata, example_inputs):
            raise NeedsEagerFallback(input_aliasing.OFFSET_REASON)
    return mutated


def _only_views(
    runtime_metadata: RuntimeMetadata | str, module: torch.fx.GraphModule, examples: Sequence[Any], compilers: Compilers
) -> BoxedFunction | None:
    """Make the program of a graph whose results are views of its inputs; it runs instead of what was compiled.

    AOTAutograd returns new tensors for several views of one operator where a gradient flows. Eager mode returns views.
    """
    if isinstance(runtime_metadata, str) or runtime_metadata.mutated_inputs or any(runtime_metadata.dynamic_dims):
        return None
    if not view_replay.only_makes_views(module):
        return None
    known = {alias.output: alias for alias in runtime_metadata.aliased_outputs}
    aliases = [known.get(at, AliasedOutput(at, -1, False, False)) for at in range(len(runtime_metadata.dynamic_dims))]
    views = view_replay.input_views(module, examples, aliases)
    program = None if views is None else compilers.views(views)
    if program is not None:
        compiled_artifact.keep_last_program()
    return program


def _views(
    runtime_metadata: RuntimeMetadata | str, module: torch.fx.GraphModule, examples: Sequence[Any], compilers: Compilers
) -> BoxedFunction | None:
    """Make the program of the outputs that alias an input; None where there are none, or AOTAutograd makes them."""
    if isinstance(runtime_metadata, str) or not runtime_metadata.aliased_outputs:
        return None
    views = view_replay.input_views(module, examples, runtime_metadata.aliased_outputs)
    return None if views is None else compilers.views(views)


def _wrap_programs(
    runtime_metadata: RuntimeMetadata | str,
    inference_programs: list[BoxedFunction],
    halves: dict[str, BoxedFunction],
    views: BoxedFunction | None,
) -> CompiledFunction | None:
    """Wrap the programs by our own runtime wrapper; None where AOTAutograd's is needed."""
    if isinstance(runtime_metadata, str):
        compiled_artifact.mark_not_storable(runtime_metadata)
        return None
    compiled_artifact.set_wrapper("inference" if inference_programs else "training", runtime_metadata)
    if views is not None:
        compiled_artifact.set_role("views")
    elif runtime_metadata.aliased_outputs:
        return None  # AOTAutograd replays the view; a later process makes it by sizes, strides and offset
    if inference_programs:
        return runtime_wrapper.wrap_inference(inference_programs[0], runtime_metadata, views)
    return (
        runtime_wrapper.wrap_training(halves["forward"], halves["backward"], runtime_metadata, views)
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
