"""Resizing of images, and padding by reflection or replication.

    upsample_nearest2d(x, (8, 8))     x[i0, i1, i2//2, i3//2]                         of an x of 4 by 4
    upsample_linear1d(x, 8)           x[i0, i1, p] and x[i0, i1, p + 1], weighted     p = max((2*i2 - 1)//4, 0)
    reflection_pad1d(x, (2, 2))       x[i0, 7 - max(...)]                             the index is reflected at the ends

Where one size is a multiple of the other the index is an expression over the
loops; otherwise it is computed as ATen computes it, in float.

In torch: torch/_inductor/lowering.py (upsample_nearestnd, _reflection_padnd). Read next:
nbcompile/lowering/scans.py
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch

from nbcompile.ir import evaluate
from nbcompile.ir.expr import Expr, Gather, IndexOf, apply, cast, compute_dtype, constant
from nbcompile.ir.index import Index, Max, Min, constant as known_number, divide, index, indices, loop_variable
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.dtype_cast import convert
from nbcompile.lowering.indexing import KNOWN_LIMIT
from nbcompile.lowering.registry import NoLowering, lowering
from nbcompile.lowering.value import Value, merge_nodes, reindexed

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class _Axis:
    """A dimension that is resized."""

    variable: Index
    """Loop variable of the result."""
    extent: Index
    """Size of the source."""
    size: Index
    """Size of the result."""
    scale: float | None
    """Factor that the program passed; None: the quotient of the sizes."""


def _axes(x: Value, out: Sequence[Any], scales: Sequence[float | None]) -> list[_Axis]:
    """The last dimensions of a tensor, which get the sizes ``out``."""
    leading = x.ndim - len(out)
    resized = zip(indices(out), scales, strict=True)
    return [
        _Axis(loop_variable(leading + n), x.size[leading + n], size, scale) for n, (size, scale) in enumerate(resized)
    ]


# -- the nearest element ---------------------------------------------------------------------------


def _nearest(build: Builder, x: Value, out: Sequence[Any], scales: Sequence[float | None], exact: bool) -> Value:
    leading, axes = x.ndim - len(out), _axes(x, out, scales)
    ranges = {axis.variable: axis.size for axis in axes}
    position: list[Index] = [loop_variable(at) for at in range(leading)]
    gathers: list[Gather] = []
    for axis in axes:
        # Where all elements are repeated equally often, the position is a division of integers: no gather is needed.
        times = _times(axis.extent, axis.size, axis.scale)
        if times is not None:
            position.append(divide(axis.variable, index(times), ranges))
            continue
        symbol = build.fresh_gather()
        gathers.append(Gather(symbol, _in_float(axis, exact), axis.extent, wraps=False))
        position.append(symbol)
    source = build.realize(x) if gathers else build.realize_if_costly(x)
    size = [*x.size[:leading], *(axis.size for axis in axes)]
    result = reindexed(source, size, position, tuple(gathers))
    return Value(x.dtype, x.device, result.size, result.body, merge_nodes(x.from_nodes, build.origin()))


def _times(extent: Index, size: Index, scale: float | None) -> int | None:
    """The repeat count of each element, where it is the same for all."""
    small, large = known_number(extent), known_number(size)
    if not small or not large or large % small:
        return None
    if not _is_plain(scale) or (scale is not None and scale != large / small):
        return None
    return large // small


def _is_plain(scale: object) -> bool:
    """Return whether a factor is a number or None; it may also be a symbol."""
    return scale is None or isinstance(scale, (int, float))


def _in_float(axis: _Axis, exact: bool) -> Expr:
    """``min(int(position * (extent / size)), extent - 1)``; the nearest to the middle if exact."""
    small, large, scale = known_number(axis.extent), known_number(axis.size), axis.scale
    if small is None or large is None or not _is_plain(scale):
        raise NoLowering("a resize to a size that is no multiple and a symbol")
    # In float32, as in ATen: in a double some positions may round to another element.
    ratio = constant(1.0 / scale if scale else small / large, torch.float32)
    position = cast(IndexOf(axis.variable, torch.int64), torch.float32)
    scaled = (position + 0.5) * ratio if exact else position * ratio
    return apply("minimum", cast(apply("floor", scaled), torch.int64), small - 1)


@lowering(aten.upsample_nearest1d.default)
def upsample_nearest1d(build: Builder, x: Value, out: Sequence[Any], scales: float | None = None) -> Value:
    """The nearest element."""
    return _nearest(build, x, out, [scales], exact=False)


@lowering(aten.upsample_nearest2d.default)
def upsample_nearest2d(
    build: Builder, x: Value, out: Sequence[Any], scales_h: float | None = None, scales_w: float | None = None
) -> Value:
    """The nearest element."""
    return _nearest(build, x, out, [scales_h, scales_w], exact=False)


@lowering(aten.upsample_nearest3d.default)
def upsample_nearest3d(
    build: Builder, x: Value, out: Sequence[Any], scales_d: float | None = None, scales_h: float | None = None,
    scales_w: float | None = None,
) -> Value:  # fmt: skip
    """The nearest element."""
    return _nearest(build, x, out, [scales_d, scales_h, scales_w], exact=False)


@lowering(aten._upsample_nearest_exact2d.default)
def upsample_nearest_exact2d(
    build: Builder, x: Value, out: Sequence[Any], scales_h: float | None = None, scales_w: float | None = None
) -> Value:
    """The element nearest to the middle."""
    return _nearest(build, x, out, [scales_h, scales_w], exact=True)


@lowering(aten.upsample_nearest2d_backward.default)
def upsample_nearest2d_backward(
    build: Builder, grad: Value, out: Sequence[Any], given: Sequence[Any], scales_h: float | None = None,
    scales_w: float | None = None,
) -> Value:  # fmt: skip
    """The sum of the gradients of all that an element became."""
    extents = indices(given)[-2:]
    pairs = zip(extents, grad.size[-2:], (scales_h, scales_w), strict=True)
    found = [_times(*each) for each in pairs]
    times = [each for each in found if each is not None]
    if len(times) < len(found):
        raise NoLowering("elements repeated a different number of times")
    leading, wide = grad.ndim - 2, compute_dtype(grad.dtype)
    # Element n became the elements n * times to n * times + times - 1: a dimension more for these, which is summed.
    size = (*grad.size[:leading], *extents, *indices(times))
    position: list[Index] = [loop_variable(at) for at in range(leading)]
    position += [loop_variable(leading + n) * each + loop_variable(grad.ndim + n) for n, each in enumerate(times)]
    parts = reindexed(build.realize_if_costly(grad), size, position)
    dims = [grad.ndim, grad.ndim + 1]
    return convert(build, build.reduce(parts, dims, False, "sum", wide, wide), grad.dtype)


# -- between the elements ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Interpolation:
    """Position of an element of the result along one dimension: between two elements of the source."""

    coordinates: tuple[Index, Index]
    """Positions of the two elements, which may hold symbols of ``gathers``."""
    weight: Expr
    """Weight of the second one."""
    gathers: tuple[Gather, ...]


def _between(build: Builder, axis: _Axis, corners: bool, dtype: torch.dtype) -> _Interpolation:
    small, large, scale = known_number(axis.extent), known_number(axis.size), axis.scale
    if small is None or large is None or not _is_plain(scale):
        raise NoLowering("an image of symbolic size, resized by weights")
    # The centres of elements are compared, at 0.5, 1.5, ...; with ``corners`` the first elements of both images
    # coincide, and the last ones. Positions before the first centre count as the first element.
    ratio = ((small - 1) / (large - 1) if large > 1 else 0.0) if corners else 1 / scale if scale else small / large
    number = cast(IndexOf(axis.variable, torch.int64), dtype)
    exact = number * ratio if corners else (number + 0.5) * ratio - 0.5
    coordinate = apply("maximum", exact, 0.0)
    below = cast(apply("floor", coordinate), torch.int64)
    weight = coordinate - apply("floor", coordinate)
    formula = _as_formula(below, axis.variable, small, large, corners)
    if formula is not None:
        return _Interpolation((formula, Min(formula + 1, axis.extent - 1)), weight, ())
    one, two = build.fresh_gather(), build.fresh_gather()
    above = apply("minimum", below + 1, small - 1)
    gathers = (Gather(one, below, axis.extent, wraps=False), Gather(two, above, axis.extent, wraps=False))
    return _Interpolation((one, two), weight, gathers)


def _as_formula(below: Expr, along: Index, small: int, large: int, corners: bool) -> Index | None:
    """The index in integer arithmetic, where that gives the same as the floating-point formula."""
    if large > KNOWN_LIMIT:
        return None
    found = evaluate.tabulate(below, along, large)
    top, bottom = (along * (small - 1), large - 1) if corners else ((2 * along + 1) * small - large, 2 * large)
    # From 4 to 8 elements: (2 * i0 - 1) // 4 instead of (8 * i0 - 4) // 16.
    common = math.gcd(*(int(each) for each in sympy.Poly(top, along).all_coeffs()), bottom) or 1
    formula = divide(Max(sympy.expand(top / common), index(0)), index(max(bottom // common, 1)), {})
    # ATen computes in float, and a rounding error may move an index: the formula is compared at every element.
    return formula if found == [int(formula.subs(along, at)) for at in range(large)] else None


def _linear(build: Builder, x: Value, out: Sequence[Any], corners: bool, scales: Sequence[float | None]) -> Value:
    """Each element is a weighted sum of 2, 4 or 8 neighbours; a weight decreases with the distance."""
    if not x.dtype.is_floating_point:
        raise NoLowering("an image of whole numbers is rounded in a way of its own")
    leading, axes, wide = x.ndim - len(out), _axes(x, out, scales), compute_dtype(x.dtype)
    along = [_between(build, axis, corners, wide) for axis in axes]
    source, result_size = build.realize(x), [*x.size[:leading], *(axis.size for axis in axes)]
    front = [loop_variable(at) for at in range(leading)]
    gathers = tuple(gather for each in along for gather in each.gathers)
    #     bilinear: 2 x 2 samples    [a00 a01 a10 a11]
    #     along the last dimension   [a0 a1]
    #     along the one before       [a]
    values = [
        reindexed(source, result_size, [*front, *coordinates], gathers).body
        for coordinates in itertools.product(*(each.coordinates for each in along))
    ]
    # The last dimension varies fastest in the product: neighbours in the list are its two samples.
    # Each round halves it.
    for sample in reversed(along):
        values = [low + (high - low) * sample.weight for low, high in zip(values[::2], values[1::2], strict=True)]
    return Value(x.dtype, x.device, tuple(result_size), values[0], merge_nodes(x.from_nodes, build.origin()))


@lowering(aten.upsample_linear1d.default)
def upsample_linear1d(
    build: Builder, x: Value, out: Sequence[Any], align_corners: bool, scales: float | None = None
) -> Value:
    """Interpolate between two elements."""
    return _linear(build, x, out, align_corners, [scales])


@lowering(aten.upsample_bilinear2d.default)
def upsample_bilinear2d(
    build: Builder, x: Value, out: Sequence[Any], align_corners: bool, scales_h: float | None = None,
    scales_w: float | None = None,
) -> Value:  # fmt: skip
    """Interpolate between four elements."""
    return _linear(build, x, out, align_corners, [scales_h, scales_w])


@lowering(aten.upsample_trilinear3d.default)
def upsample_trilinear3d(
    build: Builder, x: Value, out: Sequence[Any], align_corners: bool, scales_d: float | None = None,
    scales_h: float | None = None, scales_w: float | None = None,
) -> Value:  # fmt: skip
    """Interpolate between eight elements."""
    return _linear(build, x, out, align_corners, [scales_d, scales_h, scales_w])


# -- borders ---------------------------------------------------------------------------------------


def _reflected(coordinate: Index, extent: Index) -> Index:
    """An index, reflected at both ends; the last elements are not repeated."""
    # Of 4 elements:  coordinate  -2 -1  0  1  2  3  4  5
    #                 element      2  1  0  1  2  3  2  1
    from_front = Max(coordinate, -coordinate)
    from_back = extent - 1 - from_front
    return extent - 1 - Max(from_back, -from_back)


def _repeated(coordinate: Index, extent: Index) -> Index:
    """An index, clamped to the ends of a dimension."""
    return Min(Max(coordinate, index(0)), extent - 1)


def _bordered(build: Builder, x: Value, pad: Sequence[Any], source: Callable[[Index, Index], Index]) -> Value:
    amounts = indices(pad)
    position: list[Index] = [loop_variable(at) for at in range(x.ndim)]
    size = list(x.size)
    for n in range(len(amounts) // 2):
        # torch lists the last dimension first.
        at, before, after = x.ndim - 1 - n, amounts[2 * n], amounts[2 * n + 1]
        size[at] = before + x.size[at] + after
        if before != 0 or after != 0:
            position[at] = source(loop_variable(at) - before, x.size[at])
    result = reindexed(build.realize_if_costly(x), size, position)
    return Value(x.dtype, x.device, result.size, result.body, merge_nodes(x.from_nodes, build.origin()))


@lowering(aten.reflection_pad1d.default, aten.reflection_pad2d.default, aten.reflection_pad3d.default)
def reflection_pad(build: Builder, x: Value, pad: Sequence[Any]) -> Value:
    """A border that mirrors the image."""
    return _bordered(build, x, pad, _reflected)


@lowering(aten.replication_pad1d.default, aten.replication_pad2d.default, aten.replication_pad3d.default)
def replication_pad(build: Builder, x: Value, pad: Sequence[Any]) -> Value:
    """A border that repeats the last element."""
    return _bordered(build, x, pad, _repeated)
