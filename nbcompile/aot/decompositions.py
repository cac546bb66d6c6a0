"""Decompositions: the operators that are written in terms of simpler ones before lowering, and why.

    aten.logit(x)   ->   aten.log(x / (1 - x))          pointwise operators, which fuse

Of float16 and bfloat16 a few are written with the roundings of ATen's kernels
(rounded_steps.py). An operator is listed if its parts fuse into loops that are at least as fast as
its own kernel. It is not listed if lowering/ has a lowering of it, if its
kernel in ATen is better than any loop (matrix products, convolutions,
attention, sorting), or if it draws random numbers: such operators run as in
eager mode, so that one seed gives one result, or have a lowering
(lowering/randomness.py). In-place variants never appear here, as the graph is
functional already.

In torch: torch/_decomp/decompositions.py holds the definitions,
torch/_inductor/decomposition.py the choice that Inductor makes. Read next:
nbcompile/lowering/
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import torch

from nbcompile import torch_internals
from nbcompile.aot import copied_views, rounded_steps
from nbcompile.aot.rounded_steps import with_rounded_steps
from nbcompile.torch_internals.operators import has_decomposing_kernel

Table = Mapping[torch._ops.OpOverload, Callable[..., object]]

# Activations without a lowering (gelu, silu, elu, mish, softplus, ... have one).
ACTIVATIONS = ("celu", "selu", "glu", "hardshrink", "softshrink", "_prelu_kernel")

# Derivatives are formulas too: most of the pointwise time of a training step.
ACTIVATION_GRADIENTS = (
    "elu_backward", "mish_backward", "glu_backward", "hardswish_backward", "hardsigmoid_backward",
    "_prelu_kernel_backward", "logit_backward",
)  # fmt: skip

# Arithmetic: one name for two or three operators.
ARITHMETIC = (
    "addr", "logit", "nan_to_num", "xlogy", "special_xlog1py", "special_entr", "sinc", "deg2rad", "rad2deg",
    "heaviside", "isneginf", "isposinf", "logaddexp", "logaddexp2",
)  # fmt: skip

# Normalisations: a reduction, then pointwise work on the same rows (layer norm has a lowering).
NORMALISATIONS = (
    "native_group_norm", "native_group_norm_backward", "native_batch_norm", "native_batch_norm_backward",
    "_native_batch_norm_legit", "_native_batch_norm_legit_functional", "_native_batch_norm_legit_no_training",
    "_fused_rms_norm", "_fused_rms_norm_backward", "_batch_norm_with_update_functional", "_batch_norm_no_update",
    "batch_norm_backward",
)  # fmt: skip

# Losses end in a mean or a sum.
LOSSES = (
    "mse_loss", "mse_loss_backward", "smooth_l1_loss", "smooth_l1_loss_backward", "huber_loss", "huber_loss_backward",
    "binary_cross_entropy", "binary_cross_entropy_backward", "binary_cross_entropy_with_logits", "soft_margin_loss",
    "soft_margin_loss_backward", "nll_loss_forward", "nll_loss_backward", "nll_loss2d_forward", "nll_loss2d_backward",
)  # fmt: skip

# Reductions with a formula around them. `_safe_softmax` is softmax and a `where`.
REDUCTIONS = ("norm", "nansum", "count_nonzero", "dist", "aminmax", "_safe_softmax")

# Tensors that are constants of their shape.
CREATIONS = ("logspace", "tril_indices", "triu_indices")

# Images sampled between their elements, padded, or unfolded: an index expression, and a formula around it.
IMAGES = (
    "upsample_bicubic2d", "grid_sampler_2d",
    "affine_grid_generator", "im2col", "col2im", "reflection_pad2d_backward", "max_pool2d_with_indices_backward",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "channel_shuffle",
)  # fmt: skip

# Moves of data that are a view, a `where` or a scatter.
DATA_MOVEMENT = (
    "rot90", "diag_embed", "select_backward", "slice_backward", "diagonal_backward", "trace",
    "pixel_shuffle", "pixel_unshuffle", "unfold_backward",
)  # fmt: skip

NAMES = (
    *ACTIVATIONS, *ACTIVATION_GRADIENTS, *ARITHMETIC, *NORMALISATIONS, *LOSSES, *REDUCTIONS, *CREATIONS,
    *DATA_MOVEMENT, *IMAGES,
)  # fmt: skip


# Dtypes for which ATen's kernels run: the definitions raise, overflow where the kernels do not, or (of images of bytes)
# compute with floats what the kernels compute in fixed point.
_COMPLEX = (torch.complex32, torch.complex64, torch.complex128)
EXCEPT_FOR: dict[str, tuple[torch.dtype, ...]] = {
    "nan_to_num": _COMPLEX, "logspace": _COMPLEX, "logaddexp": _COMPLEX, "logaddexp2": _COMPLEX,
    "upsample_bicubic2d": (torch.uint8,),
}  # fmt: skip


@functools.cache
def default_table() -> Table:
    """Decompositions for nbcompile's own code generator, by operator."""
    operators = [getattr(torch.ops.aten, name) for name in NAMES if hasattr(torch.ops.aten, name)]
    table: Table = torch_internals.decompositions().get_decompositions(operators)
    excepted = {getattr(torch.ops.aten, name): dtypes for name, dtypes in EXCEPT_FOR.items()}
    chosen = {
        operator: _except_for(excepted.get(operator.overloadpacket, ()), definition)
        for operator, definition in table.items()
    }
    isin = (torch.ops.aten.isin.Tensor_Tensor, torch.ops.aten.isin.Tensor_Scalar)
    return (
        chosen
        | {torch.ops.aten.roll.default: _roll}
        | copied_views.table()
        | {overload: _with_contiguous_result(overload) for overload in isin}
        | {operator: with_rounded_steps(operator, chosen.get(operator)) for operator in rounded_steps.DEFINITIONS}
    )


@functools.cache
def of_some_dtypes() -> tuple[torch._ops.OpOverload, ...]:
    """Operators of the table whose decomposition depends on the dtype, and that torch decomposes alike for all."""
    packets = {getattr(torch.ops.aten, name) for name in EXCEPT_FOR}
    depends = [each for each in default_table() if each.overloadpacket in packets or each in rounded_steps.DEFINITIONS]
    return tuple(filter(has_decomposing_kernel, depends))


def _with_contiguous_result(overload: torch._ops.OpOverload) -> Callable[..., object]:
    """Decomposition whose result is contiguous, as in eager, where torch's fake tensors promise the input's strides."""

    def decompose(x: torch.Tensor, *arguments: object, **keywords: object) -> object:
        return NotImplemented if x.is_contiguous() else overload(x.contiguous(), *arguments, **keywords)

    return decompose


def _roll(x: torch.Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> object:
    """Decompose a roll so that a channels-last tensor stays one, as in eager; torch's makes it contiguous."""
    if isinstance(x.numel(), int) and x.numel() == 0:
        return x.clone() if dims else x.new_empty(x.shape)
    if not dims or torch._prims_common.suggest_memory_format(x) is torch.contiguous_format:
        return NotImplemented
    if any(_is_full_rotation(shift, x.shape[dim]) for shift, dim in zip(shifts, dims, strict=True)):
        return NotImplemented  # eager mode joins the tensor and an empty part of it, which is contiguous
    # n, c, h, w with channels last is n, h, w, c in memory: it is rolled as such, and viewed
    # as n, c, h, w.
    order = (0, *range(2, x.ndim), 1)
    rolled = torch.roll(x.permute(order), shifts, [order.index(dim % x.ndim) for dim in dims])
    return rolled.permute(0, x.ndim - 1, *range(1, x.ndim - 1))


def _is_full_rotation(shift: int, size: int) -> bool:
    """Return whether the roll moves nothing. A symbolic size gets no guard for it: only strides may differ then."""
    if isinstance(shift, int) and isinstance(size, int):
        return shift % size == 0
    return isinstance(shift, int) and shift == 0


def _except_for(dtypes: Sequence[torch.dtype], definition: Callable[..., object]) -> Callable[..., object]:
    """Decomposition that leaves tensors of some dtypes to ATen's kernel."""
    if not dtypes:
        return definition

    @functools.wraps(definition)
    def decompose(*arguments: object, **keywords: object) -> object:
        excepted = any(isinstance(argument, torch.Tensor) and argument.dtype in dtypes for argument in arguments)
        return NotImplemented if excepted else definition(*arguments, **keywords)

    return decompose
