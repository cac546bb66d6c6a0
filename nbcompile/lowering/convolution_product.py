"""Convolutions as matrix products (implicit GEMM) in kernels of a GPU: windows are read in place, and never copied.

    y[n, o, h, w]     buf0[n, h, w, o] = dot over r0 of x[n, c, 2*h + kh - 1, 2*w + kw - 1] * weight[o, c, kh, kw]
                      r0 counts c, kh, kw; beyond the image's edge x is 0

The rows are the pixels of all images, the columns the channels of the result, whose memory is in the order that
eager mode's has. What follows joins the kernel, as after any product (products.py). A window of one pixel is a plain
product.

In torch: torch/_inductor/kernel/conv.py (templates). Read next: nbcompile/codegen/triton_products.py
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from nbcompile.capture.node_meta import CHANNELS_LAST
from nbcompile.ir import buffer as ir
from nbcompile.ir.expr import Expr, IndexOf, Masked, apply, cast, constant
from nbcompile.ir.index import Index, index, is_one, loop_variable, loop_variables, reduction_variable, unflatten
from nbcompile.ir.layout import Layout, of_tensor
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.products import TEMPLATE, at_position, operand
from nbcompile.lowering.registry import NoLowering
from nbcompile.lowering.value import Value, merge_nodes, reindexed

CONVOLUTION = torch.ops.aten.convolution.default
DTYPES = (torch.bfloat16, torch.float16)
"""Dtypes of the template: in float32 the library may round factors to tf32, which its own setting decides."""


@dataclass(frozen=True, slots=True)
class _Geometry:
    """Numbers of a convolution, one for each dimension of the image."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    window: tuple[int, ...]
    image: tuple[int, ...]
    result: tuple[int, ...]

    @classmethod
    def of(cls, node: fx.Node) -> _Geometry:
        """The numbers of a node."""
        image, weight, _, *given = node.args
        sizes = [argument.meta["val"].shape[2:] for argument in (weight, image, node)]  # type: ignore[union-attr]
        count = len(sizes[0])
        lists = [tuple(values) * (count if len(values) == 1 else 1) for values in given[:3]]  # type: ignore[arg-type]
        return cls(*lists, *map(tuple, sizes))


def mark(
    graph: fx.Graph, device: torch.device | None, fallbacks: Mapping[str, str], parts: Mapping[str, int] | None
) -> None:
    """Mark the convolutions that are to be kernels."""
    for node in graph.find_nodes(op="call_function", target=CONVOLUTION):
        if parts is not None and node.name not in fallbacks and _is_possible(node, device):
            node.meta[TEMPLATE] = 1


def _is_possible(node: fx.Node, device: torch.device | None) -> bool:
    result: torch.Tensor = node.meta["val"]
    image, weight, bias = node.args[:3]
    operands = [argument.meta["val"] for argument in (image, weight, bias) if isinstance(argument, fx.Node)]
    transposed, groups = node.args[6], node.args[8]
    if transposed or groups != 1 or node.meta.get(CHANNELS_LAST) or operands[0].dim() != result.dim():
        return False
    if any(tensor.dtype != result.dtype or tensor.layout != torch.strided for tensor in (result, *operands)):
        return False
    on_gpu = (device or result.device).type == "cuda"
    return on_gpu and result.dtype in DTYPES and _has_matrices(operands[0].shape, operands[1].shape, result.shape)


def _has_matrices(image: Sequence[Any], weight: Sequence[Any], result: Sequence[Any]) -> bool:
    """Return whether all sizes are known, and rows, columns and the sum are more than one."""
    if not all(isinstance(extent, int) and extent > 0 for extent in (*image, *weight, *result)):
        return False
    return min(math.prod(weight[1:]), weight[0], math.prod(result) // result[1]) > 1


def lower_convolution(build: Builder, node: fx.Node, args: Sequence[Any]) -> Value:
    """Lower a marked node."""
    image, weight, bias = args[:3]
    if not isinstance(image, Value) or not isinstance(weight, Value):
        raise NoLowering("an operand of a convolution is no tensor")
    geometry = _Geometry.of(node)
    has_window = math.prod(geometry.window) > 1
    # An image that is computed would be computed once for each pixel of each window.
    image = build.realize(image) if has_window else operand(build, image)
    weight = operand(build, weight)
    total = _product(build, node, image, weight, geometry, torch.float32 if bias is not None else image.dtype)
    if bias is not None:
        # Added before the only rounding, as for the library's products.
        channel = reindexed(bias, total.size, (loop_variable(total.ndim - 1),))
        nodes = merge_nodes(bias.from_nodes, total.from_nodes, build.origin())
        body = apply("add", total.body, channel.body)
        total = build.realize(Value(image.dtype, total.device, total.size, body, nodes), _layout(node))
    first, channel_variable, *pixels = loop_variables(total.ndim)
    size = of_tensor(node.meta["val"]).size
    return reindexed(total, size, (first, *pixels, channel_variable))


def _layout(node: fx.Node) -> Layout:
    """The layout of the result with the channels as the last dimension."""
    layout = of_tensor(node.meta["val"])
    size, stride = ((values[0], *values[2:], values[1]) for values in (layout.size, layout.stride))
    return Layout(size, stride)


def _product(
    build: Builder, node: fx.Node, image: Value, weight: Value, geometry: _Geometry, dtype: torch.dtype
) -> Value:
    """Append the buffer of the product, over images, pixels and channels of the result."""
    layout = _layout(node)
    channels = weight.size[1]
    # Neighbours in the sum are neighbours in memory.
    has_channels_last = node.args[0].meta["val"].stride(1) == 1  # type: ignore[union-attr]
    order = (*map(index, geometry.window), channels) if has_channels_last else (channels, *map(index, geometry.window))
    depth = math.prod(map(int, order))
    summed = reduction_variable(0)
    ranges = {loop_variable(at): extent for at, extent in enumerate(layout.size)} | {summed: index(depth)}
    coordinates = unflatten(summed, order, {summed: index(depth)})
    channel, window = (
        (coordinates[-1], coordinates[:-1]) if has_channels_last else (coordinates[0], coordinates[1:])
    )  # fmt: skip
    variables = [index(0) if is_one(extent) else loop_variable(at) for at, extent in enumerate(layout.size)]
    first, *pixels, column = variables
    #     pixel of the image  =  stride * pixel of the result  +  dilation * position in the window  -  padding
    positions = [
        index(step) * pixel + index(apart) * inside - index(before)
        for step, pixel, apart, inside, before in zip(
            geometry.stride, pixels, geometry.dilation, window, geometry.padding, strict=True
        )
    ]
    left = at_position(image, (first, channel, *positions), ranges)
    right = at_position(weight, (column, channel, *window), ranges)
    condition = _inside(positions, geometry)
    if condition is not None:
        narrow = cast(left, image.dtype)
        left = cast(Masked(condition, narrow, constant(0, image.dtype)), torch.float32)
    name, nodes = build.fresh("buf"), merge_nodes(image.from_nodes, weight.from_nodes, build.origin())
    body = apply("mul", left, right)
    build.add(ir.Reduction(name, dtype, image.device, layout, body, "dot", (index(depth),), torch.float32, nodes))
    return build.whole(name)


def _inside(positions: Sequence[Index], geometry: _Geometry) -> Expr | None:
    """Condition of a position within the image; None if all are."""
    conditions: list[Expr] = []
    for at, along in enumerate(positions):
        position = IndexOf(along, torch.int32)
        if geometry.padding[at]:
            conditions.append(apply("ge", position, constant(0, torch.int32)))
        # The last position of the last window: only if it is beyond the image is there anything to compare.
        last = (geometry.result[at] - 1) * geometry.stride[at] + (geometry.window[at] - 1) * geometry.dilation[at]
        if last - geometry.padding[at] >= geometry.image[at]:
            conditions.append(apply("lt", position, constant(geometry.image[at], torch.int32)))
    if not conditions:
        return None
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = apply("logical_and", whole, condition)
    return whole
