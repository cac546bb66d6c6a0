"""Bias of a matrix product as an epilogue: the loop that reads the product adds it.

    addmm(bias, x, w)     ->     buf0 = mm(x, w);  reads of the result are  buf0[i0, i1] + bias[i1]

ATen first fills the result with the broadcast bias, and the library then accumulates into it: each element is written
once and read once more. A loop that reads the product anyway adds the bias at no cost. Where the result is an output,
or an operand of another extern call, addmm stays.

In torch: the pass for addmm in torch/_inductor/fx_passes/post_grad.py (unfuse_bias_add_to_pointwise). Read next:
nbcompile/lowering/graph.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from nbcompile.lowering.builder import Builder
from nbcompile.lowering.extern import fallback_reason
from nbcompile.lowering.value import Value

aten = torch.ops.aten
ADDMM = aten.addmm.default
EXACT_DTYPES = (torch.float32, torch.float64)
"""Dtypes in which the result is the same. In narrower ones the library rounds once, after the bias."""


def can_unfuse_bias(build: Builder, node: fx.Node) -> bool:
    """Return whether the bias may be added after the product, with the same rounding and less work."""
    # With alpha or beta the library scales while it accumulates: that is not one addition.
    if node.target is not ADDMM or node.kwargs:
        return False
    value = node.meta["val"]
    return value.dtype in EXACT_DTYPES and build.target_device(value.device).type == "cpu" and value.is_contiguous()


def unfuse_bias(build: Builder, args: Sequence[Value], result: Any) -> Value:
    """Lower addmm to an extern ``mm`` and a pointwise addition."""
    bias, *pair = args
    factors = tuple(build.as_argument(each, None, any_stride=True) for each in pair)
    product = build.extern_call(aten.mm.default, factors, {}, result, fallback_reason(ADDMM))
    total: Value = build.call(aten.add.Tensor, product, bias)
    return total
