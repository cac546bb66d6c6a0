"""Pooling: the maximum or the mean of windows over the last dimensions, and the gradients.

    max_pool2d(x, 3, stride=2)   max over r0 < 3, r1 < 3 of x[i0, i1, 2*i2 + r0, 2*i3 + r1]
    avg_pool2d backward          sum over the windows that an element is in: g[.., (i2 + p)//s - r0, ..] / size

Elements of a window outside of the tensor are masked.

In torch: torch/_inductor/lowering.py (max_pool2d_with_indices, avg_pool2d). Read next:
nbcompile/lowering/resizing.py
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nbcompile.ir.expr import Expr, IndexOf, Masked, apply, cast, compute_dtype, constant
from nbcompile.ir.index import (
    ZERO,
    Index,
    Max,
    Min,
    constant as known_number,
    divide,
    drop_floor_divisions,
    index,
    is_one,
    known_positive,
    loop_variable,
    product,
    remainder,
)
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.concatenation import at_least, below, both
from nbcompile.lowering.dtype_cast import convert
from nbcompile.lowering.elementwise import SUPPORTED, elementwise
from nbcompile.lowering.registry import NoLowering, lowering
from nbcompile.lowering.value import Value, merge_nodes, reindexed

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class Window:
    """A window along one dimension of ``extent`` elements."""

    extent: Index
    out: Index
    """Number of windows."""
    size: int
    stride: int
    padding: int
    dilation: int = 1

    def coordinate(self, at: Index, within: Index) -> Index:
        """The element that the window ``at`` has at ``within``; it may be outside."""
        return at * self.stride + within * self.dilation - self.padding

    def reaches_out(self) -> bool:
        """Return whether some window may reach out of the tensor."""
        last = (self.out - 1) * self.stride + (self.size - 1) * self.dilation - self.padding
        # Without padding a window ends within the tensor, except in ceil mode, or where sizes are symbols and
        # it is not known.
        return self.padding > 0 or not known_positive(self.extent - drop_floor_divisions(last))


@dataclass(frozen=True, slots=True)
class _PoolArguments:
    """Arguments of a pooling operator over the last ``count`` dimensions; a single number is for all of them."""

    count: int
    kernel: Any
    stride: Any = ()
    """Default: the kernel's size."""
    padding: Any = 0
    dilation: Any = 1


def _listed(value: Sequence[int] | int, count: int) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    return values * count if len(values) == 1 else values


def _windows(build: Builder, x: Value, pooling: _PoolArguments, result: Any = None) -> list[Window]:
    """The windows along the pooled dimensions; their number is the result's size according to FakeTensor."""
    if x.dtype not in SUPPORTED:
        raise NoLowering(f"dtype {x.dtype}")
    assert build.node is not None
    predicted = build.node.meta["val"] if result is None else result
    count = pooling.count
    out = (predicted[0] if isinstance(predicted, (tuple, list)) else predicted).shape[-count:]
    settings = (pooling.kernel, pooling.stride or pooling.kernel, pooling.padding, pooling.dilation)
    by_dim = zip(*(_listed(each, count) for each in settings), strict=True)
    return [Window(x.size[x.ndim - count + at], index(out[at]), *each) for at, each in enumerate(by_dim)]


def _inside(windows: Sequence[Window], coordinates: Sequence[Index]) -> list[Expr]:
    """Conditions that positions are in bounds; positions count from the border, so that none is negative."""
    conditions: list[Expr] = []
    for window, coordinate in zip(windows, coordinates, strict=True):
        from_border = coordinate + window.padding
        # Conditions that always hold are left out: a mask costs more than the load.
        conditions += [at_least(from_border, index(window.padding))] if window.padding else []
        conditions += [below(from_border, window.extent + window.padding)] if window.reaches_out() else []
    return conditions


def _spread(x: Value, windows: Sequence[Window], outside: float, dtype: torch.dtype) -> Value:
    """The tensor with each window's elements along dimensions of their own, at the end."""
    leading = x.ndim - len(windows)
    coordinates = [
        window.coordinate(loop_variable(leading + n), loop_variable(x.ndim + n)) for n, window in enumerate(windows)
    ]
    size = (*x.size[:leading], *(each.out for each in windows), *(index(each.size) for each in windows))
    body = cast(reindexed(x, size, [*(loop_variable(at) for at in range(leading)), *coordinates]).body, dtype)
    conditions = _inside(windows, coordinates)
    if conditions:
        # Masked, not only selected: the address of an element outside must not be loaded from.
        body = Masked(both(conditions), body, constant(outside, dtype))
    return Value(dtype, x.device, size, body, x.from_nodes)


def _last(x: Value, count: int) -> list[int]:
    return list(range(x.ndim - count, x.ndim))


# -- the largest -----------------------------------------------------------------------------------


def _max_pool(build: Builder, x: Value, pooling: _PoolArguments) -> tuple[Value, Value]:
    windows = _windows(build, x, pooling)
    wide = compute_dtype(x.dtype)
    # The value of elements outside must not be larger than that of any element.
    lowest = -math.inf if wide.is_floating_point else torch.iinfo(wide).min
    spread = _spread(build.realize_if_costly(x), windows, lowest, wide)
    dims = _last(spread, pooling.count)
    best = convert(build, build.reduce(spread, dims, False, "max", wide, wide), x.dtype)
    which = build.reduce(spread, dims, False, "argmax", torch.int64, wide)
    return best, _in_tensor(build, which, windows)


def _in_tensor(build: Builder, which: Value, windows: Sequence[Window]) -> Value:
    """The index in a window as the index in the tensor, counted over the dimensions that are pooled.

    If no element of a window is above the lowest number, the index that is found is the window's first, which may be
    outside of the tensor; eager mode then returns the first index inside.
    """
    first = which.ndim - len(windows)

    def coordinate(within: Expr) -> Expr:
        total: Expr = constant(0, torch.int64)
        step = math.prod(each.size for each in windows)
        for n, window in enumerate(windows):
            step //= window.size
            own = apply("remainder", apply("floor_div", within, step), window.size)
            start = IndexOf(loop_variable(first + n) * window.stride - window.padding, torch.int64)
            # The elements of a window are ``dilation`` apart: the first that is not outside is congruent to its start.
            at = start + own * window.dilation
            if window.padding:
                at = apply("where", apply("lt", at, 0), apply("remainder", at, window.dilation), at)
            total = total * _number(window.extent) + at
        return total

    return elementwise(build, coordinate, (which,))


def _number(extent: Index) -> Expr:
    number = known_number(extent)
    return IndexOf(extent, torch.int64) if number is None else constant(number, torch.int64)


@lowering(aten.max_pool2d_with_indices.default)
def max_pool2d(
    build: Builder, x: Value, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False,
) -> tuple[Value, Value]:  # fmt: skip
    """The largest of each window, and where it is."""
    return _max_pool(build, x, _PoolArguments(2, kernel, stride, padding, dilation))


@lowering(aten.max_pool3d_with_indices.default)
def max_pool3d(
    build: Builder, x: Value, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False,
) -> tuple[Value, Value]:  # fmt: skip
    """The largest of each window, and where it is."""
    return _max_pool(build, x, _PoolArguments(3, kernel, stride, padding, dilation))


# -- the mean --------------------------------------------------------------------------------------


def _avg_pool(
    build: Builder, x: Value, pooling: _PoolArguments, count_include_pad: bool = True, divisor: int | None = None
) -> Value:
    windows, count = _windows(build, x, pooling), pooling.count
    if not x.dtype.is_floating_point:
        raise NoLowering(f"the mean of {x.dtype}")
    wide = compute_dtype(x.dtype)
    # Elements in the padding add 0; the divisor decides whether they are counted.
    spread = _spread(build.realize_if_costly(x), windows, 0.0, wide)
    total = build.reduce(spread, _last(spread, count), False, "sum", wide, wide)
    first = total.ndim - count
    at: list[Index] = [loop_variable(first + n) for n in range(count)]
    mean = elementwise(build, lambda s: s / _divisor(windows, at, count_include_pad, divisor, s.dtype), (total,))
    return convert(build, mean, x.dtype)


def _divisor(
    windows: Sequence[Window], at: Sequence[Index], count_include_pad: bool, divisor: int | None, dtype: torch.dtype
) -> Expr:
    """Divisor of the sum over a window."""
    if divisor is not None:
        return constant(divisor, dtype)
    lengths: list[Index] = []
    for window, coordinate in zip(windows, at, strict=True):
        first = coordinate * window.stride - window.padding
        border = window.padding if count_include_pad else 0
        # A window of size 3 at the border, padding 1:
        #     padded tensor      [pad] x0 x1 x2 x3 [pad]
        #     window             [---------]              first = -1, end = 2
        #     divisor            3 with count_include_pad, else 2: from max(first, 0) on
        # In ceil mode a window may end after the padding: its end is clipped in both cases.
        lengths.append(
            Min(first + window.size, window.extent + border) - (first if count_include_pad else Max(first, ZERO))
            if _is_cut(window, border)
            else index(window.size)
        )
    length = product(lengths)
    number = known_number(length)
    return constant(number, dtype) if number is not None else cast(IndexOf(length, torch.int64), dtype)


def _is_cut(window: Window, border: int) -> bool:
    """Return whether the divisor differs between windows."""
    last = (window.out - 1) * window.stride - window.padding + window.size - 1
    return window.padding > border or not known_positive(window.extent + border - drop_floor_divisions(last))


@lowering(aten.avg_pool2d.default)
def avg_pool2d(
    build: Builder, x: Value, kernel: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Value:  # fmt: skip
    """The mean of each window."""
    return _avg_pool(build, x, _PoolArguments(2, kernel, stride, padding), count_include_pad, divisor_override)


@lowering(aten.avg_pool3d.default)
def avg_pool3d(
    build: Builder, x: Value, kernel: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Value:  # fmt: skip
    """The mean of each window."""
    return _avg_pool(build, x, _PoolArguments(3, kernel, stride, padding), count_include_pad, divisor_override)


@lowering(aten.avg_pool2d_backward.default)
def avg_pool2d_backward(
    build: Builder, grad: Value, x: Value, kernel: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Value:  # fmt: skip
    """Give each element its share of the gradients of the windows that it is in."""
    pooling = _PoolArguments(2, kernel, stride, padding)
    return _avg_pool_backward(build, grad, x, pooling, count_include_pad, divisor_override)


@lowering(aten.avg_pool3d_backward.default)
def avg_pool3d_backward(
    build: Builder, grad: Value, x: Value, kernel: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Value:  # fmt: skip
    """Give each element its share of the gradients of the windows that it is in."""
    pooling = _PoolArguments(3, kernel, stride, padding)
    return _avg_pool_backward(build, grad, x, pooling, count_include_pad, divisor_override)


def _avg_pool_backward(
    build: Builder,
    grad: Value,
    x: Value,
    pooling: _PoolArguments,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> Value:
    windows, count = _windows(build, x, pooling, result=_Shape(grad.size)), pooling.count
    leading, wide = x.ndim - count, compute_dtype(x.dtype)
    grad = build.realize_if_costly(grad)
    # The windows that hold an element: the last is the one that begins at or before it.
    holding = [-(-each.size // each.stride) for each in windows]
    size = (*x.size, *map(index, holding))
    ranges = {loop_variable(at): extent for at, extent in enumerate(size)}
    coordinates: list[Index] = []
    conditions: list[Expr] = []
    # The gradient of an element is the sum over the windows that hold it. Size 3, stride 2, no padding:
    #     elements   0  1  2  3  4
    #     window 0   [-----]             element 2: latest window 2 // 2 = 1, and one back, window 0
    #     window 1         [-----]       element 3: latest window 1; window 0 ends before it (3 % 2 + 2 >= 3)
    # So ``back`` counts from the latest window on, and a window that is too short for the element is masked.
    for n, window in enumerate(windows):
        reach = loop_variable(leading + n) + window.padding
        back = ZERO if holding[n] == 1 else loop_variable(x.ndim + n)
        latest = divide(reach, index(window.stride), ranges)
        within = remainder(reach, index(window.stride), ranges) + back * window.stride
        conditions += [at_least(latest, back)] if holding[n] > 1 else []
        conditions += [below(latest, window.out + back)]
        conditions += [below(within, index(window.size))] if holding[n] * window.stride > window.size else []
        coordinates.append(latest - back)
    share = reindexed(grad, size, [*(loop_variable(at) for at in range(leading)), *coordinates]).body
    share = cast(share, wide) / _divisor(windows, coordinates, count_include_pad, divisor, wide)
    body = Masked(both(conditions), share, constant(0.0, wide))
    nodes = merge_nodes(grad.from_nodes, build.origin())
    parts = Value(wide, x.device, size, body, nodes)
    return convert(build, build.reduce(parts, _last(parts, count), False, "sum", wide, wide), x.dtype)


@dataclass(frozen=True, slots=True)
class _Shape:
    shape: tuple[Index, ...]


# -- adaptive: the number of windows is given ------------------------------------------------------------------


def _even_windows(x: Value, out: Sequence[Any]) -> list[int]:
    """The window along each dimension, if all windows have the same size."""
    found: list[int] = []
    for extent, extent_out in zip(x.size[-len(out) :], out, strict=True):
        length, parts = known_number(extent), known_number(index(extent_out))
        if is_one(index(extent_out)) and length is None:
            raise NoLowering("windows of symbolic size")
        if length is None or parts is None or not parts or length % parts:
            raise NoLowering("windows of different sizes")
        found.append(length // parts)
    return found


@lowering(aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default)
def adaptive_avg_pool(build: Builder, x: Value, out: Sequence[Any]) -> Value:
    """The mean over the given number of windows."""
    return _avg_pool(build, x, _PoolArguments(len(out), _even_windows(x, out)))


@lowering(aten._adaptive_avg_pool2d_backward.default, aten._adaptive_avg_pool3d_backward.default)
def adaptive_avg_pool_backward(build: Builder, grad: Value, x: Value) -> Value:
    """Give each element its share of its window's gradient."""
    count = 2 if build.node is None or "2d" in str(build.node.target) else 3
    return _avg_pool_backward(build, grad, x, _PoolArguments(count, _even_windows(x, grad.size[-count:])))
