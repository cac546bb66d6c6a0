"""The forward pass of a training step, called without AOTAutograd's run-time wrapper around it.

    outputs and saved values  =  forward(inputs)      generated code
    autograd.Function         :  keeps the saved values, hands out the outputs
    backward                  :  AOTAutograd's own

AOTAutograd makes an ``autograd.Function`` whose forward pass asks at every call
what it knew when it was compiled: whether inputs are mutated, outputs alias,
sizes are symbolic. That costs 8 us a call. For a graph in which nothing of this
is so, the Function here does the rest alone (2 us), and inherits the backward.

In torch: CompiledFunction in torch/_functorch/_aot_autograd/runtime_wrappers.py.
Read next: nbcompile/aot/compile.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from nbcompile import torch_internals
from nbcompile.aot.joined import without_base

SLICES = ("tensors_saved_for_backwards_with_vc_check_slice", "tensors_saved_for_backwards_no_vc_check_slice")
"""Which results of the forward graph are saved; before torch 2.12 they have other names."""


def step(metadata: Any, forward: Callable[..., Sequence[Any]]) -> Callable[..., tuple[Any, ...]] | None:
    """The forward graph as a function whose results know how to go backward; None where AOTAutograd's is needed.

    Args:
        metadata: what AOTAutograd found out about the graph, which nobody has to do anything about at run time.
        forward: the compiled forward graph; its results are the graph's outputs, then what is saved.
    """
    made = _made_by_autograd(metadata)
    if made is None or not _is_simple(metadata):
        return None
    watched, unwatched = (getattr(metadata, each) for each in SLICES)
    constant = [number for number, each in enumerate(metadata.output_info) if not each.requires_grad]
    fresh = list(metadata.unsafe_view_out_indices)
    outputs = metadata.num_outputs

    saves_unwatched = unwatched.start != unwatched.stop

    class Step(made):  # type: ignore[misc, valid-type]
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> tuple[Any, ...]:
            results = forward(*inputs)
            ctx.save_for_backward(*map(without_base, results[watched]))
            if saves_unwatched:
                ctx._tensors_no_vc_check = tuple(map(without_base, results[unwatched]))
            returned = tuple(results[:outputs])
            if fresh:
                returned = _without_bases(returned, fresh)
            if constant:
                ctx.mark_non_differentiable(*[returned[number] for number in constant])
                ctx._materialize_non_diff_grads = False
            return returned

    # What backward looks for on ``ctx``: where there is none, the class of ``ctx`` says so, and no call has to.
    for absent in ("symints", "opaque_objects", "_tensors_no_vc_check"):
        setattr(Step._backward_cls, absent, ())
    torch_internals.hide_from_hook(Step.forward.__code__)
    # ``Function.apply`` itself first looks for transforms of torch.func, under which no such graph runs.
    apply: Callable[..., tuple[Any, ...]] = super(torch.autograd.Function, Step).apply  # type: ignore[misc]
    return apply


def _without_bases(outputs: tuple[Any, ...], fresh: Sequence[int]) -> tuple[Any, ...]:
    """The outputs at ``fresh`` are views of values that nobody sees: as far as autograd knows, they are none."""
    return tuple(
        torch.ops.aten._unsafe_view(each, each.shape) if number in fresh else each
        for number, each in enumerate(outputs)
    )


def _made_by_autograd(metadata: Any) -> type[torch.autograd.Function] | None:
    """The Function that AOTAutograd made for a graph: it has the graph's metadata."""
    classes = torch.autograd.Function.__subclasses__()
    return next((each for each in reversed(classes) if getattr(each, "metadata", None) is metadata), None)


def _is_simple(metadata: Any) -> bool:
    """Whether what is saved is tensors of known sizes, and every output is a tensor."""
    return (
        all(hasattr(metadata, each) for each in SLICES)
        and metadata.num_symints_saved_for_bw == 0
        and not metadata.dynamic_saved_tensors_idxs
        and not metadata.is_rng_op_functionalized
        and not metadata.num_opaque_objects_saved_for_bw
        and not getattr(metadata, "num_graphsafe_rng_states", 0)
        and not metadata.num_backward_tokens
        and all(issubclass(each.raw_type, torch.Tensor) for each in metadata.output_info)
    )
