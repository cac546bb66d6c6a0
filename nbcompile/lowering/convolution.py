"""Convolutions: the function of ATen that computes them, and the memory format of their operands.

    small         one matrix product an image, after its windows were laid out as columns (``_slow_conv2d``)
    chosen        buf0 = relu(x) in the order n, h, w, c;  buf1 = convolution(buf0, ...);  reads of buf1 follow
    any other     as it is written, in the order of the graph

The library prepares each call, which takes as long as a few hundred thousand multiplications. So a small convolution is
five times as fast without the library, and its backward ten times.

In torch: torch/_inductor/kernel/conv.py. Read next: nbcompile/aot/channels_last.py, which chooses
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nbcompile.capture.node_meta import CHANNELS_LAST
from nbcompile.ir import buffer as ir
from nbcompile.ir.index import constant
from nbcompile.ir.layout import channels_last, contiguous, of_tensor
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.extern import fallback_reason
from nbcompile.lowering.registry import NoLowering, lowering
from nbcompile.lowering.value import Value

aten = torch.ops.aten
CONVOLUTION, BACKWARD = aten.convolution.default, aten.convolution_backward.default
MOST_COLUMNS, MOST_WORK = 1 << 15, 1 << 20
"""Limits of a small convolution: elements of all windows, and multiplications."""
SMALL_SHARE = 16
"""A weight that is at least this many times smaller than the image is copied to the image's memory format."""


@lowering(CONVOLUTION)
def convolution(build: Builder, image: Value, weight: Value, bias: Value | None, *geometry: Any) -> Value:
    """Lower a small convolution to a matrix product, and one that is marked to channels-last strides."""
    node = build.node
    if node is None:
        raise NoLowering(fallback_reason(CONVOLUTION))
    if node.meta.get(CHANNELS_LAST):
        return _with_channels_last(build, image, weight, bias, *geometry)
    planes = _in_planes(build, (image, weight), geometry, (node.meta["val"],))
    if planes is None:
        raise NoLowering(fallback_reason(CONVOLUTION))
    given = [*planes.tensors, None if bias is None else _in_order(build, bias)]
    arguments = (*given[:2], planes.window, given[2], planes.stride, planes.padding)
    result = build.extern_call(aten._slow_conv2d_forward.default, arguments, {}, planes.results[0], SMALL)
    return planes.back(build, result)


@lowering(BACKWARD)
def convolution_backward(
    build: Builder, grad: Value, image: Value, weight: Value, _bias: Any, *rest: Any
) -> tuple[Value | None, ...]:
    """The gradients of a convolution."""
    *geometry, mask = rest
    results = () if build.node is None else build.node.meta["val"]
    planes = _in_planes(build, (image, weight, grad), geometry, results)
    if planes is None:
        raise NoLowering(fallback_reason(BACKWARD))
    image_given, weight_given, grad_given = planes.tensors
    arguments = (grad_given, image_given, weight_given, planes.window, planes.stride, planes.padding, mask)
    target = aten._slow_conv2d_backward.output_mask
    of_image, of_weight, of_bias = build.extern_call(target, arguments, {}, planes.results, SMALL)
    return planes.back(build, of_image), planes.back(build, of_weight), of_bias


SMALL = f"{fallback_reason(CONVOLUTION)}; this one is so small that a matrix product is faster"


@dataclass(frozen=True, slots=True)
class _Planes:
    """A small convolution over two dimensions; one dimension is treated as an image with a single row."""

    tensors: tuple[ir.BufferView, ...]
    window: list[int]
    stride: list[int]
    padding: list[int]
    results: tuple[torch.Tensor | None, ...]
    """Strides by FakeTensor."""
    has_rows: bool

    def back(self, build: Builder, result: Value | None) -> Any:
        """A result with as many dimensions as it should have."""
        return build.call(aten.squeeze.dim, result, 2) if self.has_rows and result is not None else result


def _is_plain(tensors: Sequence[Value], geometry: Sequence[Any], results: Sequence[torch.Tensor | None]) -> bool:
    """True if ``_slow_conv2d`` supports the convolution: float32 on the CPU, dense windows, one group."""
    image, weight = tensors[:2]
    stride, padding, dilation, transposed, _, groups = geometry
    return (
        image.ndim in (3, 4)
        and image.device.type == "cpu"
        and all(each.dtype == torch.float32 for each in tensors)
        and all(constant(each) for each in (*image.size, *weight.size))
        and all(_is_list_of_ints(each, image.ndim - 2) for each in (stride, padding, dilation))
        and all(each is None or each.is_contiguous() for each in results)
        and all(each == 1 for each in dilation)
        and not transposed
        and groups == 1
    )


def _is_list_of_ints(values: Sequence[object], length: int) -> bool:
    return len(values) == length and all(type(value) is int for value in values)


def _in_planes(
    build: Builder, tensors: Sequence[Value], geometry: Sequence[Any], results: Sequence[torch.Tensor | None]
) -> _Planes | None:
    """The convolution as a matrix product with contiguous results, if it is small and ``_slow_conv2d`` supports it."""
    image, weight = tensors[:2]
    stride, padding = geometry[:2]
    if not _is_plain(tensors, geometry, results):
        return None
    has_rows = image.ndim == 3
    window = [int(each) for each in weight.size[2:]]
    # Size of the result in each dimension, for windows without dilation: (n + 2 * padding - window) // stride + 1.
    pixels = [
        (int(extent) + 2 * pad - size) // step + 1
        for extent, pad, size, step in zip(image.size[2:], padding, window, stride, strict=True)
    ]
    # im2col: a convolution is a matrix product once the window around each pixel is copied into a column, which
    # multiplies the image by the size of the window. It pays only for small images.
    columns = int(image.size[0]) * int(weight.size[1]) * math.prod((*pixels, *window))
    if columns > MOST_COLUMNS or columns * int(weight.size[0]) > MOST_WORK:
        return None
    # A dimension of one row: n, c, w becomes n, c, 1, w, with a window of 1 x size.
    if has_rows:
        tensors = [build.call(aten.unsqueeze.default, each, 2) for each in tensors]
        results = [each if each is None or each.dim() != 3 else each.unsqueeze(2) for each in results]
        window, stride, padding = [1, *window], [1, *stride], [0, *padding]
    given = tuple(_in_order(build, each) for each in tensors)
    return _Planes(given, window, list(stride), list(padding), tuple(results), has_rows)


def _in_order(build: Builder, value: Value) -> ir.BufferView:
    return build.as_argument(value, contiguous(value.size), any_stride=False)


def _with_channels_last(build: Builder, image: Value, weight: Value, bias: Value | None, *rest: Any) -> Value:
    """Call the library with operands in channels-last format; its result has that format, too."""
    node = build.node
    assert node is not None
    given = build.as_argument(image, channels_last(image.size), any_stride=False)
    # The library copies the weight to its own format in any case, and some of its kernels do so at each call.
    elements = [math.prod(int(extent) for extent in each.size) for each in (weight, image)]
    order = channels_last(weight.size) if elements[0] * SMALL_SHARE <= elements[1] else None
    others = [
        build.as_argument(weight, order, any_stride=order is None),
        None if bias is None else build.as_argument(bias, None, any_stride=True),
    ]
    #     image (n, h, w, c) --> convolution --> buf (n, h, w, c)
    # Loops that read the result follow its strides (Builder.default_layout).
    called, name = build.fresh("extern"), build.fresh("buf")
    predicted = node.meta["val"]
    reason = f"{fallback_reason(CONVOLUTION)}, with the channels of a pixel beside each other"
    build.add(ir.Extern(called, CONVOLUTION, (given, *others, *rest), {}, reason, (), build.origin()))
    layout = channels_last(of_tensor(predicted).size)
    build.channels_last.add(name)
    build.add(ir.ExternOutput(name, predicted.dtype, predicted.device, layout, called, (), build.origin()))
    return build.whole(name)
