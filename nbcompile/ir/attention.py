"""Attention as one custom operator: ATen's fused kernel, and the separate steps for rows where the two differ.

    out, sums = nbcompile::attention(query, keys, values, bias, masked, filler, scale)

ATen's kernel never writes the scores to memory. It adds minus infinity to a masked score instead of replacing it, and
returns 0 for a row in which every score is masked. So with an infinity or a NaN in queries or keys its result may
differ from that of the separate steps. The kernel also returns the logarithm of each row's sum, which is a finite,
nonzero number exactly where the two agree. The operator checks it after each call (one number per row, where scores
have one per key), and runs the separate steps where the check fails, which is rare.

In torch: aten/src/ATen/native/cpu/FlashAttentionKernel.cpp. Read next:
nbcompile/aot/attention.py
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from nbcompile import torch_internals
from nbcompile.ir.layout import SIZE_HINT

_FLASH = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_SCHEMA = (
    "attention(Tensor query, Tensor keys, Tensor values, Tensor? bias, Tensor? masked, float filler, float scale)"
    " -> (Tensor, Tensor)"
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes and type of an attention: symbolic ones as they are while it is compiled, or a guess."""

    heads: int
    """Number of matrices: batch times heads."""
    rows: int
    keys: int
    width: int
    dtype: torch.dtype
    steps: int
    """Number of masks and biases."""

    @classmethod
    def of(cls, query: torch.Tensor, keys: torch.Tensor, steps: int) -> Sizes:
        """The sizes of a query, and of keys that are transposed."""
        *batch, rows, width, count = (
            torch_internals.example_of(size, SIZE_HINT) for size in (*query.shape, keys.shape[-1])
        )
        return cls(math.prod(batch), rows, count, width, query.dtype, steps)


Decide = Callable[[Sizes], tuple[bool, str]]
"""Callback that decides whether an attention becomes one operator, and gives the reason."""


def attention(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    bias: torch.Tensor | None,
    masked: torch.Tensor | None,
    filler: float,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """``softmax(query @ keys.mT * scale + bias) @ values``, and the logarithm of each row's sum.

    Args:
        query: four dimensions, as ``keys`` and ``values``: batch, heads, length, width.
        keys: transposed by the operator.
        values: of the query's width.
        bias: added to the scores; minus infinity where they are masked.
        masked: true where a score is replaced by the filler.
        filler: minus infinity, or a number so low that a masked score has weight zero.
        scale: factor of the scores, before bias and mask.
    """
    out, sums = _FLASH(query, keys, values, 0.0, False, attn_mask=bias, scale=scale)
    #     row of scores               sum of the kernel       the separate steps
    #     finite, some masked         its logarithm           the same
    #     all masked                  0                       NaN, or the mean of the values
    #     an infinity or a NaN        infinite or NaN         whatever they compute
    exact_rows = _is_kernel_exact(sums, filler)
    if exact_rows.all():
        return out, sums
    if bias is not None:
        fully_masked = (bias == -math.inf).all(-1, keepdim=True)
        if (exact_rows | fully_masked.squeeze(-1)).all():
            # The softmax of a row of equal fillers is uniform, so the separate steps return the mean of the values;
            # the softmax of a row of minus infinities is NaN.
            empty_row_result = (
                values.mean(-2, keepdim=True) if filler != -math.inf else torch.full_like(out[..., :1], math.nan)
            )
            return torch.where(fully_masked, empty_row_result, out), sums
    weights = torch.softmax(_scores(query, keys, bias, masked, filler, scale), -1)
    return weights @ values, sums


def _is_kernel_exact(sums: torch.Tensor, filler: float) -> torch.Tensor:
    """Mask of the rows whose result is exact: some score is finite, and none is NaN or plus infinity.

    The kernel's sum of a fully masked row is 0. Next to a score of half the filler, a masked one has weight zero.
    """
    return (sums.abs() < -filler / 2) & (sums != 0)


def _scores(
    query: torch.Tensor,
    keys: torch.Tensor,
    bias: torch.Tensor | None,
    masked: torch.Tensor | None,
    filler: float,
    scale: float,
) -> torch.Tensor:
    """Scores by the separate steps, in which the filler replaces masked scores."""
    scores = query @ keys.transpose(-2, -1) * scale
    with_bias = scores if bias is None else scores + bias
    if masked is None:
        return with_bias
    if filler != -math.inf or bias is None:
        return torch.where(masked, filler, scores)
    return torch.where(masked, bias, with_bias)


def _fake_attention(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    bias: torch.Tensor | None,
    masked: torch.Tensor | None,
    filler: float,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Fake implementation: shapes of the results."""
    out, sums = _FLASH(query, keys, values, 0.0, False, attn_mask=bias, scale=scale)
    return out, sums


# The library is kept alive: its operators are removed when it is collected.
_LIBRARY = torch.library.Library("nbcompile", "DEF")
_LIBRARY.define(_SCHEMA)
_LIBRARY.impl("attention", attention, "CPU")
torch.library.register_fake("nbcompile::attention", _fake_attention, lib=_LIBRARY)
ATTENTION = torch.ops.nbcompile.attention.default
