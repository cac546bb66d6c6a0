"""Attention as one operator of our own: ATen's fused kernel where it is right, step by step where it is not.

    out, sums = nbcompile::attention(query, keys, values, bias, masked, filler, scale)

ATen's kernel never writes the scores to memory. It adds minus infinity to a masked score instead of replacing it, and
gives 0 for a row in which no score is left. So with an infinity or a NaN among queries and keys its result may differ
from what was written out: those scores may be masked, or may be all that a row has. The kernel also tells the logarithm
of each row's sum, which is an ordinary number just where nothing of this happened: that is looked at after each call
(a number a row, where the scores are as many as keys), and rarely the steps are done as they were written.

In torch: aten/src/ATen/native/cpu/FlashAttentionKernel.cpp. Read next:
nbcompile/aot/attention.py
"""

from __future__ import annotations

import math

import torch

_FLASH = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_SCHEMA = (
    "attention(Tensor query, Tensor keys, Tensor values, Tensor? bias, Tensor? masked, float filler, float scale)"
    " -> (Tensor, Tensor)"
)


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
        query: as ``keys`` and ``values`` of four dimensions: batch, heads, length, width.
        keys: to be transposed.
        values: as wide as the query.
        bias: what is added to the scores; minus infinity where they are masked.
        masked: where a score is replaced, whatever it is.
        filler: by which number: minus infinity, or one so low that nothing is left of the score.
        scale: by which number the scores are multiplied first.
    """
    out, sums = _FLASH(query, keys, values, 0.0, False, attn_mask=bias, scale=scale)
    exact_rows = _is_kernel_exact(sums, filler)
    if exact_rows.all():
        return out, sums
    if bias is not None:
        fully_masked = (bias == -math.inf).all(-1, keepdim=True)
        if (exact_rows | fully_masked.squeeze(-1)).all():
            empty_row_result = (
                values.mean(-2, keepdim=True) if filler != -math.inf else torch.full_like(out[..., :1], math.nan)
            )
            return torch.where(fully_masked, empty_row_result, out), sums
    weights = torch.softmax(_scores(query, keys, bias, masked, filler, scale), -1)
    return weights @ values, sums


def _is_kernel_exact(sums: torch.Tensor, filler: float) -> torch.Tensor:
    """Rows of which the kernel's result holds: some score was a number, none was NaN or plus infinity.

    The kernel's sum of nothing is 0. Beside a score of half the filler a masked one weighs nothing.
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
    """As they were written: what is masked is replaced."""
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
    """What comes out, of fake tensors."""
    out, sums = _FLASH(query, keys, values, 0.0, False, attn_mask=bias, scale=scale)
    return out, sums


# Kept: an operator goes with its library.
_LIBRARY = torch.library.Library("nbcompile", "DEF")
_LIBRARY.define(_SCHEMA)
_LIBRARY.impl("attention", attention, "CPU")
torch.library.register_fake("nbcompile::attention", _fake_attention, lib=_LIBRARY)
ATTENTION = torch.ops.nbcompile.attention.default
