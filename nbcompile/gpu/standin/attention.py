"""Fused attention of a GPU as functions of the CPU, for eager mode and the code for a stand-in device.

    scaled_dot_product_attention(q, k, v)     on the stand-in device: aten._scaled_dot_product_flash_attention(q, k, v)

Torch chooses by type, mask and sizes (attention.h). Results are computed in float32, and have the layouts that torch's
fake tensors have. Dropout draws from a seed, which is a result, so that the backward drops the same elements.

In torch: aten/src/ATen/native/transformers/cuda/attention.cu. Read next: nbcompile/gpu/standin/device.py
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nbcompile import torch_internals

ROWS_OF_SUMS = 32
"""The efficient kernel rounds the number of its logarithms up to a multiple of it."""
BIAS_COLUMNS = 16
"""Multiple to which it rounds up the columns of a mask's gradient."""


@dataclass(frozen=True, slots=True)
class _Options:
    bias: Tensor | None
    dropout: float
    is_causal: bool
    scale: float | None


def _scores(query: Tensor, key: Tensor, options: _Options) -> Tensor:
    """Scores in float32; that of a masked key is minus infinity."""
    scale = 1 / math.sqrt(query.size(-1)) if options.scale is None else options.scale
    scores = query.float() @ _for_heads(key, query).mT * scale
    if options.bias is not None:
        scores = scores + options.bias.float()
    if options.is_causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, -math.inf)
    return scores


def _for_heads(tensor: Tensor, query: Tensor) -> Tensor:
    """Keys or values in float32, once for each head of the query."""
    return tensor.float().repeat_interleave(query.size(1) // tensor.size(1), 1)


def _kept(shape: Sequence[int], dropout: float, seed: Tensor) -> Tensor | float:
    """Factors of what is dropped: 0, or what makes up for the zeros."""
    if dropout == 0:
        return 1.0
    generator = torch.Generator().manual_seed(int(seed.reshape(-1)[0]))
    return (torch.rand(shape, generator=generator) >= dropout) / (1 - dropout)


def _new_seed(dropout: float) -> int:
    return int(torch.randint(2**31, ())) if dropout else 0


def _forward(query: Tensor, key: Tensor, value: Tensor, options: _Options, seed: Tensor) -> tuple[Tensor, Tensor]:
    """Result and logarithms of the sums of exponentials, in float32."""
    scores = _scores(query, key, options)
    sums = scores.logsumexp(-1)
    # A row whose keys are all masked has the sum log(0): -inf - -inf would be NaN, and exp(-inf - 0) is 0.
    weights = (scores - sums.masked_fill(sums == -math.inf, 0).unsqueeze(-1)).exp()
    return (weights * _kept(weights.shape, options.dropout, seed)) @ _for_heads(value, query), sums


@dataclass(frozen=True, slots=True)
class _ForwardPass:
    """Operands, result and seed of a forward, from which its backward is computed."""

    query: Tensor
    key: Tensor
    value: Tensor
    out: Tensor
    sums: Tensor
    seed: Tensor


def _backward(grad: Tensor, forward: _ForwardPass, options: _Options) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of query, key, value and bias, in float32."""
    query, key, value = forward.query, forward.key, forward.value
    scale = 1 / math.sqrt(query.size(-1)) if options.scale is None else options.scale
    scores = _scores(query, key, options)
    sums = forward.sums[..., : query.size(2)].unsqueeze(-1)
    weights = (scores - sums.masked_fill(sums == -math.inf, 0)).exp()
    kept = _kept(weights.shape, options.dropout, forward.seed)
    grad = grad.float()
    of_value = (weights * kept).mT @ grad
    of_weights = grad @ _for_heads(value, query).mT * kept
    # The derivative of the softmax: w * (dw - sum of w * dw over the row), and this sum is that of grad * out.
    of_scores = weights * (of_weights - (grad * forward.out.float()).sum(-1, keepdim=True))
    of_query = of_scores @ _for_heads(key, query) * scale
    of_key = of_scores.mT @ query.float() * scale
    # Heads of the query that share keys add to one gradient.
    shared = (query.size(0), key.size(1), -1)
    of_key, of_value = (grad.unflatten(1, shared[1:]).sum(2) for grad in (of_key, of_value))
    return of_query, of_key, of_value, of_scores


def _filled(like: Tensor, value: Tensor) -> Tensor:
    return torch.empty_like(like).copy_(value)


def _rows_first(value: Tensor, dtype: torch.dtype) -> Tensor:
    """The layout of the efficient kernel: batch, rows, heads, columns."""
    return torch.empty_permuted(value.shape, (0, 2, 1, 3), dtype=dtype).copy_(value)


def flash(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, is_causal: bool = False,
    return_debug_mask: bool = False, *, scale: float | None = None,
) -> tuple[Tensor, Tensor, None, None, int, int, Tensor, Tensor, Tensor]:  # fmt: skip
    """``_scaled_dot_product_flash_attention``."""
    seed = torch.tensor([_new_seed(dropout_p), 0], dtype=torch.uint64)
    out, sums = _forward(query, key, value, _Options(None, dropout_p, is_causal, scale), seed)
    no_mask = torch.empty(0, dtype=query.dtype)
    unused = torch.empty((), dtype=torch.uint64)
    return _filled(query, out), sums, None, None, query.size(2), key.size(2), seed, unused, no_mask


def flash_backward(
    grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor,
    cum_seq_q: Tensor | None, cum_seq_k: Tensor | None, max_q: int, max_k: int, dropout_p: float, is_causal: bool,
    philox_seed: Tensor, philox_offset: Tensor, *, scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """``_scaled_dot_product_flash_attention_backward``."""
    options = _Options(None, dropout_p, is_causal, scale)
    grads = _backward(grad_out, _ForwardPass(query, key, value, out, logsumexp, philox_seed), options)
    of_query, of_key, of_value = (
        _filled(like, grad) for like, grad in zip((query, key, value), grads, strict=False)
    )  # fmt: skip
    return of_query, of_key, of_value


def efficient(
    query: Tensor, key: Tensor, value: Tensor, attn_bias: Tensor | None, compute_log_sumexp: bool,
    dropout_p: float = 0.0, is_causal: bool = False, *, scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """``_scaled_dot_product_efficient_attention``."""
    seed = torch.tensor(_new_seed(dropout_p))
    out, sums = _forward(query, key, value, _Options(attn_bias, dropout_p, is_causal, scale), seed)
    rows = -(-query.size(2) // ROWS_OF_SUMS) * ROWS_OF_SUMS if compute_log_sumexp else 0
    # Rows that were added are infinite: exp(score - inf) is 0, whatever a kernel reads there.
    kept = torch.full((*sums.shape[:2], rows), math.inf)
    if rows:
        kept[..., : query.size(2)] = sums
    return _rows_first(out, query.dtype), kept, seed, torch.zeros((), dtype=torch.long)


def efficient_backward(
    grad_out_: Tensor, query: Tensor, key: Tensor, value: Tensor, attn_bias: Tensor | None, out: Tensor,
    logsumexp: Tensor, philox_seed: Tensor, philox_offset: Tensor, dropout_p: float, grad_input_mask: Sequence[bool],
    is_causal: bool = False, *, scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:  # fmt: skip
    """``_scaled_dot_product_efficient_attention_backward``."""
    options = _Options(attn_bias, dropout_p, is_causal, scale)
    grads = _backward(grad_out_, _ForwardPass(query, key, value, out, logsumexp, philox_seed), options)
    of_query, of_key, of_value = (_rows_first(grad, query.dtype) for grad in grads[:3])
    of_bias = None
    if attn_bias is not None and grad_input_mask[3]:
        columns = -(-attn_bias.size(-1) // BIAS_COLUMNS) * BIAS_COLUMNS
        of_bias = torch.empty((*attn_bias.shape[:-1], columns), dtype=attn_bias.dtype)[..., : attn_bias.size(-1)]
        of_bias.copy_(grads[3].sum_to_size(attn_bias.shape))
    return of_query, of_key, of_value, of_bias


OPERATORS = {
    "_scaled_dot_product_flash_attention": flash, "_scaled_dot_product_flash_attention_backward": flash_backward,
    "_scaled_dot_product_efficient_attention": efficient,
    "_scaled_dot_product_efficient_attention_backward": efficient_backward,
}  # fmt: skip


def register() -> torch.library.Library:
    """Give the operators kernels of the CPU, which the stand-in device's operators are; torch has none for them."""
    library = torch.library.Library("aten", "IMPL", "CPU")
    for name, function in OPERATORS.items():
        library.impl(name, function)
        torch_internals.hide_from_hook(function.__code__)
    return library
