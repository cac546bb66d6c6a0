"""Runtime metadata of a graph: what its runtime wrapper does at each call, decided at compile time.

    def f(x, y):                  RuntimeMetadata(mutated_inputs=[0],                          x.add_(y)
        x.add_(y)                                 aliased_outputs=[(1, 0, True, False)],       return ..., x
        return x * y, x                           dynamic_dims=[None, None])

It is computed from AOTAutograd's metadata (``runtime_metadata_of``), or by a tracer that replaces AOTAutograd
(``aot/traced_graphs.py``); the disk cache stores it with the programs.

In torch: ViewAndMutationMeta of torch/_functorch/_aot_autograd/schemas.py. Read next: nbcompile/aot/runtime_wrapper.py
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from nbcompile import torch_internals
from nbcompile.torch_internals import is_trained

NON_ALIAS_OUTPUTS = ("non_alias", "unsafe_view_alias")
"""Output types with a storage of their own; in the second case the base of the view is not visible outside."""
INPUT_ALIASES = ("alias_of_input", "is_input")


class AliasedOutput(NamedTuple):
    """An output that is an input, or a view of one, by position."""

    output: int
    input: int
    is_input: bool
    requires_grad: bool


class TangentLayout(NamedTuple):
    """The layout in which the backward program reads a gradient: sizes and strides, or a memory format."""

    size: tuple[int, ...] | None
    stride: tuple[int, ...] | None
    memory_format: torch.memory_format | None


@dataclass(frozen=True, slots=True)
class TrainingMetadata:
    """The part for a graph with gradients: an autograd.Function over a forward and a backward program.

    The forward program returns the outputs and then the saved values, in three groups.
    """

    detached_inputs: Sequence[int]
    """Inputs to which autograd's graph should have no edge: the backward program returns no gradient for them.

    Autograd would continue to what an input with history was computed from, and run the hooks of a leaf with None.
    """
    view_outputs: Sequence[int]
    """Outputs that are views of a base which is not visible outside."""
    non_differentiable_outputs: Sequence[int]
    saved_checked: slice
    """Tensors saved for backward with a version check: a mutation in between is an error."""
    saved_unchecked: slice
    saved_numbers: slice
    """Symbolic sizes that the backward program takes as numbers."""
    forward_returns: int
    """The number of outputs before the saved values."""
    differentiable_outputs: Sequence[int]
    tangent_layouts: Sequence[TangentLayout]
    """Layout of the gradient of each differentiable output."""
    deterministic: bool | None
    """True if deterministic algorithms were on when the backward program was compiled; None if that does not matter."""
    shared_with_outputs: Sequence[tuple[int, int]] = ()
    """Saved tensors in the memory of an output, by position: the checked ones share the output's version counter."""
    saves_intermediates: bool = False
    """True if a saved tensor shares its memory with no input, output or gradient: torch's donated buffers."""


@dataclass(frozen=True, slots=True)
class RuntimeMetadata:
    """The steps around the programs of a graph."""

    dynamic_dims: Sequence[Sequence[int] | None]
    """Dims of each output with symbolic sizes."""
    mutated_inputs: Sequence[int] = ()
    """Inputs that the program writes to, whose versions are bumped."""
    aliased_outputs: Sequence[AliasedOutput] = ()
    training: TrainingMetadata | None = None
    """None for a graph without gradients."""


def runtime_metadata_of(
    aot_metadata: Any,
    without_gradient: Sequence[int] | None,
    inputs: int,
    leaves_have_edges: bool = False,
    shared_with_outputs: Sequence[tuple[int, int]] = (),
) -> RuntimeMetadata | str:
    """Runtime metadata, from AOTAutograd's; or the reason why our runtime wrapper does not suffice.

    Args:
        aot_metadata: AOTAutograd's metadata of the graph (a ``ViewAndMutationMeta``).
        without_gradient: for training, the inputs for which the backward graph returns None; for inference, None.
        inputs: number of inputs of the graph.
        leaves_have_edges: a derivative of the user's may return None for an input that eager's autograd reaches.
        shared_with_outputs: saved tensors that have the memory of an output, by position.
    """
    reason = _unsupported_reason(aot_metadata, inputs, trains=without_gradient is not None)
    if reason:
        return reason
    outputs = aot_metadata.output_info
    return RuntimeMetadata(
        dynamic_dims=[sorted(each.dynamic_dims) if each.dynamic_dims else None for each in outputs],
        mutated_inputs=list(aot_metadata.mutated_graph_handled_indices_seen_by_autograd),
        aliased_outputs=[
            AliasedOutput(at, output.base_idx, output.output_type.name == "is_input", output.requires_grad)
            for at, output in enumerate(outputs)
            if output.output_type.name in INPUT_ALIASES
        ],
        training=None
        if without_gradient is None
        else _training_metadata_of(aot_metadata, without_gradient, leaves_have_edges, shared_with_outputs),
    )


def _training_metadata_of(
    aot_metadata: Any,
    without_gradient: Sequence[int],
    leaves_have_edges: bool,
    shared_with_outputs: Sequence[tuple[int, int]],
) -> TrainingMetadata:
    info, outputs = aot_metadata.input_info, aot_metadata.output_info
    trained = [at for at, each in enumerate(info) if each.requires_grad]
    # Without any edge, autograd would create no node, and no output would require grad.
    keeps_leaves = leaves_have_edges or set(trained) <= set(without_gradient)
    return TrainingMetadata(
        detached_inputs=[
            at for at in without_gradient if info[at].requires_grad and not (keeps_leaves and info[at].is_leaf)
        ],
        view_outputs=list(aot_metadata.unsafe_view_out_indices),
        non_differentiable_outputs=[at for at, each in enumerate(outputs) if not each.requires_grad],
        # What the forward program returns:
        #      outputs ...   | tensors, checked   | tensors, not checked   | numbers
        #      forward_returns of them            saved for the backward program
        saved_checked=aot_metadata.tensors_saved_for_backwards_with_vc_check_slice,
        saved_unchecked=aot_metadata.tensors_saved_for_backwards_no_vc_check_slice,
        saved_numbers=aot_metadata.symints_saved_for_backwards_slice,
        forward_returns=aot_metadata.num_forward_returns,
        differentiable_outputs=[at for at, each in enumerate(outputs) if _has_gradient(each)],
        tangent_layouts=[_layout(each.memory_format) for each in aot_metadata.subclass_tangent_meta],
        deterministic=aot_metadata.deterministic,
        shared_with_outputs=shared_with_outputs,
        saves_intermediates=bool(aot_metadata.bw_donated_idxs),
    )


def _has_gradient(output: Any) -> bool:
    # An output that aliases an input is replayed from the input, outside of the autograd.Function, and
    # has its gradient there.
    is_new = output.output_type.name in NON_ALIAS_OUTPUTS
    return is_new and issubclass(output.raw_type, torch.Tensor) and is_trained(output)


def _unsupported_reason(aot_metadata: Any, inputs: int, *, trains: bool) -> str:
    if torch._C._is_any_autocast_enabled():
        return "the graph is compiled under autocast"
    # AOTAutograd has replaced them by their common base: programs take the base, and not the user's tensors.
    if len(aot_metadata.input_info) != inputs:
        return "some inputs are the same tensor, or views of one tensor"
    if any(each.output_type.name not in (*NON_ALIAS_OUTPUTS, *INPUT_ALIASES) for each in aot_metadata.output_info):
        return "outputs are views of one another"
    if aot_metadata.num_mutated_inp_runtime_indices or aot_metadata.num_intermediate_bases:
        return "an input is mutated after the graph has run"
    unusual = (
        aot_metadata.tokens, aot_metadata.num_backward_tokens, aot_metadata.is_rng_op_functionalized,
        aot_metadata.num_graphsafe_rng_states, getattr(aot_metadata, "num_opaque_objects_saved_for_bw", 0),
        getattr(aot_metadata, "act_input_indices", ()), aot_metadata.grad_enabled_mutation is not None,
        trains and aot_metadata.indices_of_inputs_that_requires_grad_with_mutations_in_bw,
    )  # fmt: skip
    return "the graph needs AOTAutograd's runtime wrappers" if any(unusual) else ""


def _layout(tangent: Any) -> TangentLayout:
    return TangentLayout(
        tangent.size and tuple(tangent.size), tangent.stride and tuple(tangent.stride), tangent.memory_format
    )


def dynamic_dims(outputs: Iterable[object]) -> list[list[int] | None]:
    """Dims with symbolic sizes, per output; None where there are none."""
    return [
        [dim for dim, size in enumerate(output.shape) if not torch_internals.symbolic_shapes().is_concrete_int(size)]
        or None
        if isinstance(output, torch.Tensor)
        else None
        for output in outputs
    ]
