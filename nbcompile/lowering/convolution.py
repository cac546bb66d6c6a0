"""Convolutions that were chosen to have the channels of a pixel beside each other.

    buf0 = relu(x) in the order n, h, w, c;  buf1 = convolution(buf0, ...);  reads of buf1[n, c, h, w] at n, h, w, c

The others run through ATen as they are written, in the order of the graph.

In torch: torch/_inductor/kernel/conv.py. Read next: nbcompile/aot/layouts.py, which chooses
"""

from __future__ import annotations

from typing import Any

import torch

from nbcompile.capture.node_meta import CHANNELS_LAST
from nbcompile.ir import buffer as ir
from nbcompile.ir.layout import channels_last, of_tensor
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.extern import reason_for
from nbcompile.lowering.registry import NoLowering, lowering
from nbcompile.lowering.value import Value

CONVOLUTION = torch.ops.aten.convolution.default


@lowering(CONVOLUTION)
def convolution(build: Builder, image: Value, weight: Value, bias: Value | None, *rest: Any) -> Value:
    """Hand over and take back with the channels last."""
    node = build.node
    if node is None or not node.meta.get(CHANNELS_LAST):
        raise NoLowering(reason_for(CONVOLUTION))
    # The library brings the weight into an order of its own in any case.
    others = [None if each is None else build.as_argument(each, None, any_stride=True) for each in (weight, bias)]
    given = build.as_argument(image, channels_last(image.size), any_stride=False)
    called, name = build.fresh("extern"), build.fresh("buf")
    predicted = node.meta["val"]
    reason = f"{reason_for(CONVOLUTION)}, with the channels of a pixel beside each other"
    build.add(ir.Extern(called, CONVOLUTION, (given, *others, *rest), {}, reason, (), build.here()))
    layout = channels_last(of_tensor(predicted).size)
    build.channels_last.add(name)
    build.add(ir.ExternOutput(name, predicted.dtype, predicted.device, layout, called, (), build.here()))
    return build.whole(name)
