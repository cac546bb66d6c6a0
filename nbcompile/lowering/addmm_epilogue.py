"""Matrix products whose sum is done by the loop that reads them.

    addmm(bias, x, w)     ->     buf0 = mm(x, w);  reads of the result are  buf0[i0, i1] + bias[i1]

ATen first fills the result with the bias, over and over, and the library then adds to what it finds there: each element
is written once and read once more. A loop that reads the product anyway adds the bias at no cost. Where the result is
returned, or handed to another operator of ATen, it stays as it is.

In torch: the pass for addmm in torch/_inductor/fx_passes/post_grad.py (unfuse_bias_add_to_pointwise). Read next:
nbcompile/lowering/graph.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from nbcompile.lowering.builder import Builder
from nbcompile.lowering.extern import reason_for
from nbcompile.lowering.value import Value

aten = torch.ops.aten
SUM = aten.addmm.default
EXACT = (torch.float32, torch.float64)
"""In narrower types the library rounds once, after the bias."""


def may_be_apart(build: Builder, node: fx.Node) -> bool:
    """Whether the sum of a product may be done after it, with the same rounding and less work."""
    if node.target is not SUM or node.kwargs:
        return False
    value = node.meta["val"]
    return value.dtype in EXACT and build.placed(value.device).type == "cpu" and value.is_contiguous()


def apart(build: Builder, args: Sequence[Value], result: Any) -> Value:
    """The product in memory, the sum where it is read."""
    bias, *pair = args
    factors = tuple(build.as_argument(each, None, any_stride=True) for each in pair)
    product = build.extern_of(aten.mm.default, factors, {}, result, reason_for(SUM))
    total: Value = build.call(aten.add.Tensor, product, bias)
    return total
