"""Layout optimisation: convolutions of an inference graph run in the channels-last memory format.

    convolution(x[n, c, h, w])      ->      the same node with meta["channels_last"]; its lowering passes x, and
                                            takes the result, with strides in the order n, h, w, c

The library's convolutions are 10 % to 30 % faster in that format where there are many channels. The loops between two
convolutions follow their strides, so elements are transposed only at both ends of a chain of convolutions, fused with
other work.

In torch: decide_layout_opt in torch/_inductor/graph.py. Read next: nbcompile/lowering/convolution.py
"""

from __future__ import annotations

import math

import torch
from torch import fx

from nbcompile.capture.node_meta import CHANNELS_LAST

_CONVOLUTION = torch.ops.aten.convolution.default
_MIN_CHANNELS = 16
_MIN_PIXELS = 512
"""Pixels of all images of a batch; below it, the layout of the weight decides the speed."""
_MIN_MULTIPLICATIONS_PER_ELEMENT = 64
"""Multiplications per input element that pay for transposing it."""


def mark_channels_last(module: fx.GraphModule) -> tuple[str, ...]:
    """Mark the convolutions of a functional graph that gain from channels-last; return a note for the record."""
    eligible = [node for node in module.graph.find_nodes(op="call_function", target=_CONVOLUTION) if _is_eligible(node)]
    # With a window of one pixel both formats are about as fast: such convolutions follow the others.
    if not any(_is_profitable(node) for node in eligible):
        return ()
    # All eligible convolutions are marked: between a marked one and another one elements are transposed.
    for node in eligible:
        node.meta[CHANNELS_LAST] = True
    return (f"channels last: {len(eligible)} convolution{'s' if len(eligible) > 1 else ''}",)


def _is_static_image(tensor: torch.Tensor) -> bool:
    """True for four dimensions of float32 on the CPU, of known sizes."""
    return (
        tensor.dim() == 4
        and tensor.device.type == "cpu"
        and tensor.dtype == torch.float32
        and all(isinstance(extent, int) and extent > 0 for extent in tensor.shape)
    )


def _is_eligible(node: fx.Node) -> bool:
    image, weight, _, _, _, _, transposed, *_ = node.args
    tensors = [operand.meta["val"] for operand in (image, weight, node) if isinstance(operand, fx.Node)]
    return (
        len(tensors) == 3
        and not transposed
        and all(map(_is_static_image, tensors))
        # The image and the result: channels in and channels out.
        and all(tensor.shape[1] >= _MIN_CHANNELS for tensor in tensors[::2])
        and _pixels(node) >= _MIN_PIXELS
        # An output of the graph, or a view of one, must have eager's strides.
        and not any(user.op == "output" or _is_view(user) for user in node.users)
    )


def _is_view(node: fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and any(each.alias_info is not None for each in schema.returns)


def _pixels(node: fx.Node) -> int:
    batch, _, height, width = node.meta["val"].shape
    return int(batch * height * width)


def _is_profitable(node: fx.Node) -> bool:
    image, weight = (each.meta["val"] for each in node.args[:2] if isinstance(each, fx.Node))
    window = math.prod(weight.shape[2:])
    work = node.meta["val"].numel() * weight.shape[1] * window
    # work / elements of the image: how often an element is used, to pay for moving it once.
    return bool(window > 1 and work >= _MIN_MULTIPLICATIONS_PER_ELEMENT * image.numel())
