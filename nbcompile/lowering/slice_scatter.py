"""Scatters into a view (slice, select, diagonal, as_strided) as masked loads: no element is moved by an index.

    slice_scatter(x, y, 0, 2, 4)                  y[i0 - 2] where 2 <= i0 < 4, else x[i0]
    as_strided_scatter(x, y, (3,), (5,), 1)       y[(i0 - 1) // 5] where i0 >= 1 and (i0 - 1) // 5 < 3
                                                  and (i0 - 1) % 5 == 0, else x[i0]

In torch: torch/_inductor/lowering.py (slice_scatter), torch/_prims/__init__.py (as_strided_scatter). Read next:
nbcompile/lowering/scatter.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch

from nbcompile.ir.expr import Expr, IndexOf, Masked, apply
from nbcompile.ir.index import (
    ZERO,
    Index,
    Mod,
    Ranges,
    constant as known_number,
    divide,
    flatten,
    index,
    indices,
    is_one,
    known_equal,
    loop_variable,
    loop_variables,
    remainder,
)
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.concatenation import at_least, below, both, number_of
from nbcompile.lowering.dtype_cast import convert
from nbcompile.lowering.registry import NoLowering, lowering
from nbcompile.lowering.value import Value, broadcast_to, merge_nodes, reindexed
from nbcompile.lowering.views import dimension, from_the_end, moved_along, slice_bounds, unsqueeze

aten = torch.ops.aten


@lowering(aten.slice_scatter.default)
def slice_scatter(
    build: Builder, x: Value, source: Value, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1
) -> Value:
    """``x`` with a slice replaced by ``source``."""
    dim = dimension(dim, x.ndim)
    first, extent, stride = slice_bounds(build, x.size[dim], start, end, step)
    if extent == 0:
        return x
    source = convert(build, broadcast_to(source, [*x.size[:dim], extent, *x.size[dim + 1 :]]), x.dtype)
    along = loop_variable(dim)
    ranges = x.ranges()
    conditions: list[Expr] = []
    if first != ZERO:
        conditions.append(at_least(along, first))
    # The end, one after the last element that is written: x[0:7:3] writes 0, 3 and 6.
    past = first + stride * (extent - 1) + 1
    if not known_equal(past, x.size[dim]):
        conditions.append(below(along, past))
    if not is_one(stride):
        # (along - first) mod stride, with a dividend that is never negative.
        off = Mod(along + sympy.Mod(-first, stride), stride)
        conditions.append(apply("eq", IndexOf(off, torch.int64), 0))
    #     x[1:8:3] = y       elements 1, 4, 7 of x are y[0], y[1], y[2]
    #     y[(i - 1) // 3]    where i >= 1 and i < 8 and (i - 1) % 3 == 0
    inner = moved_along(source, dim, x.size[dim], divide(along - first, stride, ranges))
    body = Masked(both(conditions), inner.body, x.body) if conditions else inner.body
    return Value(x.dtype, x.device, x.size, body, merge_nodes(x.from_nodes, source.from_nodes, build.origin()))


@lowering(aten.select_scatter.default)
def select_scatter(build: Builder, x: Value, source: Value, dim: int, at: Any) -> Value:
    """``x`` with one index of a dimension replaced by ``source``."""
    dim = dimension(dim, x.ndim)
    coordinate = from_the_end(index(at), x.size[dim])
    row = unsqueeze(build, source, dim)
    return slice_scatter(build, x, row, dim, coordinate, coordinate + 1)


@lowering(aten.diagonal_scatter.default)
def diagonal_scatter(build: Builder, x: Value, source: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """``x`` with a diagonal of two dimensions replaced by ``source``, whose last dimension it is."""
    one, two = dimension(dim1, x.ndim), dimension(dim2, x.ndim)
    row, column = loop_variable(one), loop_variable(two)
    source = convert(build, source, x.dtype)
    others = [loop_variable(at) for at in range(x.ndim) if at not in (one, two)]
    inner = reindexed(source, x.size, [*others, row if offset >= 0 else column])
    # column - row == offset, with no negative term on either side.
    on_it = apply("eq", number_of(column + max(0, -offset)), number_of(row + max(0, offset)))
    nodes = merge_nodes(x.from_nodes, source.from_nodes, build.origin())
    return Value(x.dtype, x.device, x.size, Masked(on_it, inner.body, x.body), nodes)


@lowering(aten.as_strided_scatter.default, torch.ops.prims.as_strided_scatter.default)
def as_strided_scatter(
    build: Builder, x: Value, source: Value, size: Any, stride: Any, storage_offset: Any = None
) -> Value:
    """``x`` with ``source`` at the elements of a strided view of its memory, which must not overlap itself."""
    fake = build.node.args[0].meta["val"] if build.node is not None else None  # type: ignore[union-attr]
    if not isinstance(fake, torch.Tensor) or not fake.is_contiguous():
        raise NoLowering("as_strided_scatter into a tensor that is not contiguous")
    # The offset counts from the begin of the storage, indices from the first element of x.
    own = index(fake.storage_offset())
    start = known_number((own if storage_offset is None else index(storage_offset)) - own)
    steps = _steps(indices(size), indices(stride))
    elements = known_number(sympy.Mul(*x.size))
    if start is None or steps is None or elements is None:
        raise NoLowering("as_strided_scatter through a view that may overlap itself")
    if any(extent == 0 for _, extent, _ in steps):
        return x
    last = start + sum((extent - 1) * step for _, extent, step in steps)
    if start < 0 or last >= elements:
        raise NoLowering("as_strided_scatter out of bounds of its tensor")
    ranges = x.ranges()
    rest = flatten(loop_variables(x.ndim), x.size) - start
    found, conditions = _in_view(rest, steps, ranges)
    position = [found.get(dim, ZERO) for dim in range(len(indices(size)))]
    conditions = [at_least(rest, ZERO)] * (start > 0) + conditions
    inner = reindexed(convert(build, broadcast_to(source, indices(size)), x.dtype), x.size, position)
    body = Masked(both(conditions), inner.body, x.body) if conditions else inner.body
    return Value(x.dtype, x.device, x.size, body, merge_nodes(x.from_nodes, source.from_nodes, build.origin()))


def _in_view(rest: Index, steps: Sequence[tuple[int, int, int]], ranges: Ranges) -> tuple[dict[int, Index], list[Expr]]:
    """The position of an offset along each dimension of a strided view, and the conditions under which it has one."""
    # The inverse of a read: for each element of x, compute whether it is in the view, and at which position. The offset
    # is divided by the strides, the largest first, as a number is divided into its digits:
    #     position of dim = rest // stride,  must be below its extent;  rest = rest % stride
    # What is left in the end must be 0: elements between those of the view keep x.
    position: dict[int, Index] = {}
    conditions = []
    for dim, extent, step in steps:
        position[dim] = divide(rest, index(step), ranges)
        conditions.append(below(position[dim], index(extent)))
        rest = remainder(rest, index(step), ranges)
    if rest != ZERO:
        conditions.append(apply("eq", IndexOf(rest, torch.int64), 0))
    return position, conditions


def _steps(size: tuple[Index, ...], stride: tuple[Index, ...]) -> list[tuple[int, int, int]] | None:
    """Dimensions with their extents and strides, the largest stride first; None if the view may overlap itself."""
    found = []
    for dim, (one, two) in enumerate(zip(size, stride, strict=True)):
        extent, step = known_number(one), known_number(two)
        if extent is None or step is None:
            return None
        if extent != 1:
            found.append((dim, extent, step))
    found.sort(key=lambda entry: -entry[2])
    # From the smallest stride on, each has to be larger than the offset of the last element so far; otherwise two
    # elements may have one address.
    beyond = 0
    for _, extent, step in reversed(found):
        if extent and step <= beyond:
            return None
        beyond += (extent - 1) * step
    return found
