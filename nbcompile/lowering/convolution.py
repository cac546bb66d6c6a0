"""Convolutions: which of ATen's takes them, and in which order of their elements.

    small         one matrix product an image, after its windows were laid out as columns (``_slow_conv2d``)
    chosen        buf0 = relu(x) in the order n, h, w, c;  buf1 = convolution(buf0, ...);  reads of buf1 follow
    any other     as it is written, in the order of the graph

Before the library computes it prepares, as long as a few hundred thousand multiplications take. So a small convolution
is five times as fast without it, and its backward ten times.

In torch: torch/_inductor/kernel/conv.py. Read next: nbcompile/aot/layouts.py, which chooses
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from nbcompile.capture.node_meta import CHANNELS_LAST
from nbcompile.ir import buffer as ir
from nbcompile.ir.index import constant
from nbcompile.ir.layout import channels_last, contiguous, of_tensor
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.extern import reason_for
from nbcompile.lowering.registry import NoLowering, lowering
from nbcompile.lowering.value import Value

aten = torch.ops.aten
CONVOLUTION, BACKWARD = aten.convolution.default, aten.convolution_backward.default
MOST_COLUMNS, MOST_WORK = 1 << 15, 1 << 20
"""Of a small convolution: the elements of all windows, and the multiplications."""


@lowering(CONVOLUTION)
def convolution(build: Builder, image: Value, weight: Value, bias: Value | None, *rest: Any) -> Value:
    """As a matrix product where it is small; where that was chosen, with the channels last."""
    node = build.node
    if node is None:
        raise NoLowering(reason_for(CONVOLUTION))
    if node.meta.get(CHANNELS_LAST):
        return _with_channels_last(build, image, weight, bias, *rest)
    result = node.meta["val"]
    if not _is_small(image, weight, rest, result):
        raise NoLowering(reason_for(CONVOLUTION))
    stride, padding, *_ = rest
    given = [None if each is None else _in_order(build, each) for each in (image, weight, bias)]
    arguments = (*given[:2], _window(weight), given[2], stride, padding)
    value: Value = build.extern_of(aten._slow_conv2d_forward.default, arguments, {}, result, SMALL)
    return value


@lowering(BACKWARD)
def convolution_backward(
    build: Builder, grad: Value, image: Value, weight: Value, _bias: Any, *rest: Any
) -> tuple[Value | None, ...]:
    """The same of the gradients."""
    *geometry, mask = rest
    if build.node is None or not _is_small(image, weight, geometry, *build.node.meta["val"]):
        raise NoLowering(reason_for(BACKWARD))
    stride, padding, *_ = geometry
    given = [_in_order(build, each) for each in (grad, image, weight)]
    arguments = (*given, _window(weight), stride, padding, mask)
    target = aten._slow_conv2d_backward.output_mask
    gradients: tuple[Value | None, ...] = build.extern_of(target, arguments, {}, build.node.meta["val"], SMALL)
    return gradients


SMALL = f"{reason_for(CONVOLUTION)}; this one is so small that a matrix product is faster"


def _is_small(image: Value, weight: Value, geometry: Sequence[Any], *results: torch.Tensor | None) -> bool:
    """Whether it is small, and of the kind that the matrix product knows, its results in the usual order."""
    stride, padding, dilation, transposed, _, groups = geometry
    sizes = [constant(each) or 0 for each in (*image.size, *weight.size)]
    if image.ndim != 4 or image.device.type != "cpu" or image.dtype != torch.float32 or not all(sizes):
        return False
    plain = all(each == 1 for each in dilation) and not transposed and groups == 1 and weight.dtype == image.dtype
    known = all(len(each) == 2 and all(type(one) is int for one in each) for each in (stride, padding))
    if not plain or not known:
        return False
    batch, _, height, width, channels, inner, *window = sizes
    pixels = [
        (extent + 2 * pad - size) // step + 1
        for extent, pad, size, step in zip((height, width), padding, window, stride, strict=True)
    ]
    columns = batch * inner * math.prod((*pixels, *window))
    in_order = all(each is None or each.is_contiguous() for each in results)
    return in_order and columns <= MOST_COLUMNS and columns * channels <= MOST_WORK


def _in_order(build: Builder, value: Value) -> ir.BufferView:
    return build.as_argument(value, contiguous(value.size), any_stride=False)


def _window(weight: Value) -> list[int]:
    return [int(each) for each in weight.size[2:]]


def _with_channels_last(build: Builder, image: Value, weight: Value, bias: Value | None, *rest: Any) -> Value:
    """Hand over and take back with the channels last."""
    node = build.node
    assert node is not None
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
