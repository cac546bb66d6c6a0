"""Extern calls: the reason why an operator falls back to ATen.

Every operator without a lowering falls back; none is an error. The reason is
in the record, so that a reader sees which part of a graph was not fused: the view shows these very sentences.

In torch: torch/_inductor/ir.py (FallbackKernel), kernel/. Read next:
nbcompile/ir/buffer.py (Extern)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from nbcompile.ir.buffer import COLLECTIVES, operator_name

aten = torch.ops.aten

_FAMILIES: dict[str, str] = {
    "matrix product: a tuned library comes near the hardware's limit": (
        "mm bmm addmm baddbmm addmv mv dot matmul linear _int_mm"
    ),
    "grouped matrix product: the library's kernel finds the rows of each group on the device": (
        "_grouped_mm _scaled_grouped_mm"
    ),
    "convolution: a tuned library does it": "convolution convolution_backward _convolution mkldnn_convolution",
    "attention: ATen has a fused kernel": (
        "_scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu "
        "_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention "
        "_scaled_dot_product_flash_attention_for_cpu_backward _scaled_dot_product_fused_attention_overrideable "
        "_scaled_dot_product_flash_attention_backward _scaled_dot_product_efficient_attention_backward "
        "_scaled_dot_product_cudnn_attention_backward _scaled_dot_product_fused_attention_overrideable_backward "
        "scaled_dot_product_attention"
    ),
    "random numbers: the generator is ATen's, so that results equal eager's": (
        "rand randn rand_like randn_like randint bernoulli native_dropout multinomial "
        "normal uniform exponential randperm"
    ),
    "sorting": "sort topk kthvalue median nanmedian mode unique_dim _unique2 argsort isin",
    "a binary search: where an element is read next depends on what was read": "searchsorted bucketize",
    "a special function, which ATen sums term by term": (
        "i0 special_i0e special_i1 special_i1e special_zeta polygamma special_ndtri special_erfcx special_log_ndtr "
        "igamma igammac special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1 mvlgamma "
        "special_airy_ai special_spherical_bessel_j0 special_modified_bessel_i0 special_modified_bessel_i1 "
        "special_modified_bessel_k0 special_modified_bessel_k1 special_scaled_modified_bessel_k0 "
        "special_scaled_modified_bessel_k1"
    ),
    "an orthogonal polynomial, which ATen computes from those of lower degrees": (
        "special_chebyshev_polynomial_t special_chebyshev_polynomial_u special_chebyshev_polynomial_v "
        "special_chebyshev_polynomial_w special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u "
        "special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w special_hermite_polynomial_h "
        "special_hermite_polynomial_he special_laguerre_polynomial_l special_legendre_polynomial_p"
    ),
    "complex numbers: generated kernels hold real ones": "complex polar view_as_real view_as_complex _conj",
    "writes to offsets that are read from memory": (
        "scatter scatter_add scatter_reduce index_put _unsafe_index_put index_add index_copy index_fill masked_scatter "
        "embedding_dense_backward scatter_ index_put_"
    ),
    "counting into bins: elements meet at offsets that are read from memory": "histc bincount histogramdd",
    "gradients that meet where an image was read between its elements": (
        "upsample_linear1d_backward upsample_bilinear2d_backward upsample_trilinear3d_backward "
        "upsample_bicubic2d_backward grid_sampler_2d_backward grid_sampler_3d_backward replication_pad1d_backward "
        "replication_pad2d_backward replication_pad3d_backward reflection_pad1d_backward reflection_pad3d_backward"
    ),
    "linear algebra": "linalg_inv_ex linalg_solve linalg_qr _linalg_svd _linalg_eigh linalg_lu_factor_ex cholesky",
}  # fmt: skip
REASONS: dict[str, str] = {name: reason for reason, names in _FAMILIES.items() for name in names.split()}


def returned_by(target: Any, predicted: Any) -> Any:
    """The fake tensor for what an operator returns, with its real strides."""
    # The function for fake tensors keeps the argument's strides. A result with others would be copied at once, while
    # it is still written.
    broadcast = operator_name(target) == f"{COLLECTIVES}::broadcast"
    return predicted.contiguous() if broadcast and isinstance(predicted, torch.Tensor) else predicted


def fallback_reason(target: Any) -> str:
    """Reason, in words, why there is no lowering for an operator."""
    # Higher-order operators and Python functions have no schema.
    schema = getattr(target, "_schema", None)
    if schema is None:
        return "not an operator of ATen"
    namespace, _, name = schema.name.partition("::")
    if name.startswith("linear_cross_entropy"):
        return "linear layer and cross entropy: the logits of some rows at a time"
    if namespace == COLLECTIVES:
        return "between processes: other kernels run until its result is waited for"
    if namespace == "nbcompile":
        return "attention: ATen has a fused kernel, and what it does otherwise is put right"
    if namespace != "aten":
        return f"a custom operator of {namespace}"
    return REASONS.get(name, "no lowering for this operator yet")


_MAY_RETURN_ARGUMENT = {
    aten._unsafe_view.default, aten.reshape.default, aten.contiguous.default, aten.detach.default,
    aten.lift_fresh_copy.default,
}  # fmt: skip
"""Operators that may return their argument although their schema does not say so."""


def can_fall_back(node: fx.Node) -> bool:
    """Return whether an operator with a lowering may fall back to ATen; it may not if its result is a view."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or node.target in _MAY_RETURN_ARGUMENT:
        return False
    return node.target is aten.copy_.default or all(each.alias_info is None for each in schema.returns)
