"""Operators that only move elements: no buffer, another index into the old one.

    x.t()             x[i1, i0]
    x[:, 1::2]        x[i0, 2*i1 + 1]
    x.reshape(2, 12)  of (4, 6): x[2*i0 + i1 // 6, i1 % 6]
    cat([a, b])       a[i0] where i0 < 4, else b[i0 - 4]

In torch: torch/_inductor/ir.py (PermuteView, View, SliceView, ...). Read next:
nbcompile/lowering/indexing.py
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import sympy
import torch

from nbcompile.ir.index import (
    ONE,
    ZERO,
    Index,
    Mod,
    constant as known_number,
    divide,
    flatten,
    index,
    indices,
    is_one,
    known_equal,
    loop_variable,
    loop_variables,
    product,
    unflatten,
)
from nbcompile.ir.layout import Layout, of_tensor
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.registry import NoLowering, lowering
from nbcompile.lowering.value import Value, broadcast_to, reindexed

aten = torch.ops.aten
# What torch writes for an end that is left out: x[1:] is slice(x, 0, 1, 2**63 - 1).
_TO_THE_END = 2**63 - 1


def dimension(dim: int, ndim: int) -> int:
    """A dimension counted from the front (a scalar accepts 0 and -1)."""
    return dim % max(ndim, 1)


# -- the same elements, other dimensions ----------------------------------------------------------


@lowering(aten.alias.default, aten.detach.default, aten.lift.default, aten.lift_fresh.default)
def alias(_: Builder, x: Value) -> Value:
    """The value itself."""
    return x


@lowering(aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten._reshape_alias.default)
def reshape(_: Builder, x: Value, size: Sequence[Any], *__: Any) -> Value:
    """The elements in row-major order, with another shape."""
    new = _with_inferred(indices(size), x.size)
    if new == x.size:
        return x
    return reindexed(x, new, _regrouped(x.size, new))


def _with_inferred(size: tuple[Index, ...], old: tuple[Index, ...]) -> tuple[Index, ...]:
    if not any(extent == -1 for extent in size):
        return size
    known = product(extent for extent in size if extent != -1)
    # One size of -1 is allowed. The quotient of the products, not of the
    # sizes one by one: cancel removes common symbols, (6*s0) / (2*s0) is 3.
    missing = sympy.cancel(product(old) / known) if known != 0 else ZERO
    return tuple(missing if extent == -1 else extent for extent in size)


@functools.lru_cache(maxsize=4096)
def _regrouped(old: tuple[Index, ...], new: tuple[Index, ...]) -> list[Index]:
    """Index of each old dimension, over the new loop variables.

    Dimensions are paired off in the smallest groups with equal products, so
    that ``(8, 128) -> (8, 4, 32)`` divides nothing.
    """
    position: list[Index] = []
    at = 0
    ranges = {loop_variable(n): extent for n, extent in enumerate(new)}
    # Within a group: the new position becomes one linear index, which is divided into the old dimensions.
    for old_group, new_group in _groups(old, new):
        # A dimension of size 1 has the index 0. Its variable would be right as well, but two
        # indices that are equal would not look so, and fusion compares them as they are written.
        variables = [ZERO if is_one(new[at + n]) else loop_variable(at + n) for n in range(len(new_group))]
        coordinate = flatten(variables, new_group)
        position += unflatten(coordinate, old_group, ranges)
        at += len(new_group)
    return position


def _groups(old: tuple[Index, ...], new: tuple[Index, ...]) -> list[tuple[tuple[Index, ...], tuple[Index, ...]]]:
    groups = []
    start, begun = 0, 0
    # The products so far of the old and of the new group; both lists are walked like two sorted lists in a merge:
    #     old  (8,   128)          8 == 8: a group.  128 > 4, so 32 is taken, too: 128 == 4 * 32, the next group
    #     new  (8, 4, 32)
    one, two = ONE, ONE
    stop, ended = 0, 0
    while stop < len(old) or ended < len(new):
        # Advance the list with the smaller product; both if the products are equal.
        if stop < len(old) and (ended >= len(new) or known_equal(one, two) or _smaller(one, two)):
            one = one * old[stop]
            stop += 1
            if not known_equal(one, two):
                continue
        elif ended < len(new):
            two = two * new[ended]
            ended += 1
        if known_equal(one, two) and stop > start and ended > begun:
            groups.append((old[start:stop], new[begun:ended]))
            start, begun, one, two = stop, ended, ONE, ONE
    if start < stop or begun < ended:
        if groups:
            # Sizes of 1 at the end, or products that could not be compared: joined to the last group.
            last_old, last_new = groups.pop()
            groups.append((last_old + old[start:stop], last_new + new[begun:ended]))
        else:
            groups.append((old, new))
    return groups


def _smaller(one: Index, two: Index) -> bool:
    first, second = known_number(one), known_number(two)
    if first is not None and second is not None:
        return first < second
    difference = sympy.expand(two - one)
    # 1, the product before a group's first size, is taken for smaller than any symbolic
    # product. Only an unbacked size may be 0, and then no element is looked for.
    return bool(difference.is_positive) or known_number(one) == 1


@lowering(aten.permute.default)
def permute(_: Builder, x: Value, dims: Sequence[int]) -> Value:
    """The dimensions in another order."""
    order = [dimension(dim, x.ndim) for dim in dims]
    # The inverse of the order: x.permute(2, 0, 1)[i0, i1, i2] is x[i1, i2, i0].
    position: list[Index] = [ZERO] * x.ndim
    for new, old in enumerate(order):
        position[old] = loop_variable(new)
    return reindexed(x, [x.size[old] for old in order], position)


@lowering(aten.transpose.int)
def transpose(build: Builder, x: Value, dim0: int, dim1: int) -> Value:
    """Two dimensions swapped."""
    if x.ndim == 0:
        return x
    order = list(range(x.ndim))
    one, two = dimension(dim0, x.ndim), dimension(dim1, x.ndim)
    order[one], order[two] = order[two], order[one]
    return permute(build, x, order)


@lowering(aten.t.default)
def t(build: Builder, x: Value) -> Value:
    """A matrix transposed."""
    return x if x.ndim < 2 else permute(build, x, [1, 0])


@lowering(aten.expand.default)
def expand(_: Builder, x: Value, size: Sequence[Any], *, implicit: bool = False) -> Value:
    """Repeat dimensions of size 1."""
    target = indices(size)
    missing = len(target) - x.ndim
    full = tuple(x.size[at - missing] if extent == -1 and at >= missing else extent for at, extent in enumerate(target))
    return broadcast_to(x, full)


@lowering(aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims)
def squeeze(_: Builder, x: Value, dim: int | Sequence[int] | None = None) -> Value:
    """Remove dimensions of size 1."""
    if dim is None:
        squeezed = set(range(x.ndim))
    else:
        squeezed = {dimension(each, x.ndim) for each in ([dim] if isinstance(dim, int) else dim)}
    remaining = [at for at in range(x.ndim) if not (at in squeezed and is_one(x.size[at]))]
    position: list[Index] = [ZERO] * x.ndim
    for new, old in enumerate(remaining):
        position[old] = loop_variable(new)
    return reindexed(x, [x.size[at] for at in remaining], position)


@lowering(aten.unsqueeze.default)
def unsqueeze(_: Builder, x: Value, dim: int) -> Value:
    """Insert a dimension of size 1."""
    at = dim % (x.ndim + 1)
    size = [*x.size[:at], ONE, *x.size[at:]]
    # The variable of the new dimension is in no index: it has only one value.
    return reindexed(x, size, [loop_variable(n + (n >= at)) for n in range(x.ndim)])


# -- some of the elements -------------------------------------------------------------------------


def moved_along(x: Value, dim: int, size: Index, coordinate: Index) -> Value:
    """Other indices along one dimension."""
    position: list[Index] = list(loop_variables(x.ndim))
    position[dim] = coordinate
    return reindexed(x, [*x.size[:dim], size, *x.size[dim + 1 :]], position)


@lowering(aten.select.int)
def select(_: Builder, x: Value, dim: int, at: Any) -> Value:
    """Select one index of a dimension, and remove the dimension."""
    dim = dimension(dim, x.ndim)
    coordinate = from_the_end(index(at), x.size[dim])
    position = [coordinate if n == dim else loop_variable(n - (n > dim)) for n in range(x.ndim)]
    return reindexed(x, [*x.size[:dim], *x.size[dim + 1 :]], position)


def from_the_end(coordinate: Index, extent: Index) -> Index:
    """Normalise an index that may be negative: count it from the front."""
    number = known_number(coordinate)
    if number is None and not coordinate.is_nonnegative:
        raise NoLowering(f"the index {coordinate}, whose sign is not known")
    return coordinate + extent if number is not None and number < 0 else coordinate


@lowering(aten.slice.Tensor)
def slice_(build: Builder, x: Value, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> Value:
    """``x[start:end:step]`` along one dimension."""
    dim = dimension(dim, x.ndim)
    first, extent, stride = slice_bounds(build, x.size[dim], start, end, step)
    if first == ZERO and is_one(stride) and known_equal(extent, x.size[dim]):
        return x
    return moved_along(x, dim, extent, first + stride * loop_variable(dim))


def slice_bounds(build: Builder, extent: Index, start: Any, end: Any, step: Any) -> tuple[Index, Index, Index]:
    """Start, length and step of a slice."""
    first = _clamped(build, index(0 if start is None else start), extent)
    last = extent if end is None or end == _TO_THE_END else _clamped(build, index(end), extent)
    stride = index(step)
    count = last - first
    # x[3:1] has no element: a count below 0 is 0.
    number = known_number(count)
    if number is not None and known_number(stride) is not None:
        return first, index(max(0, -(-number // int(stride)))), stride
    if not build.is_true(count >= 0):
        raise NoLowering(f"a slice of symbolic length {count}")
    return first, divide(count + stride - 1, stride, {}), stride


def _clamped(build: Builder, coordinate: Index, extent: Index) -> Index:
    number, size = known_number(coordinate), known_number(extent)
    if number is not None and size is not None:
        return index(min(max(number + size if number < 0 else number, 0), size))
    if number == 0 or known_equal(coordinate, extent):
        return coordinate
    # The sign of a symbolic bound must be known, and whether it is in bounds.
    if build.is_true(coordinate < 0):
        coordinate = coordinate + extent
    elif not build.is_true(coordinate >= 0):
        raise NoLowering(f"a slice that begins or ends at {coordinate}, which may be negative or not")
    if build.is_true(coordinate >= extent):
        return extent
    if build.is_true(coordinate <= 0):
        return ZERO
    if not (build.is_true(coordinate >= 0) and build.is_true(coordinate <= extent)):
        raise NoLowering(f"a slice that ends at {coordinate} of {extent}")
    return coordinate


@lowering(aten.split.Tensor, aten.split_with_sizes.default, aten.split.sizes)
def split(_: Builder, x: Value, sizes: Any, dim: int = 0) -> tuple[Value, ...]:
    """Pieces along one dimension."""
    dim = dimension(dim, x.ndim)
    extent = known_number(x.size[dim])
    if not isinstance(sizes, (list, tuple)):
        piece_size = known_number(index(sizes))
        if piece_size is None or extent is None:
            raise NoLowering("a split into a symbolic number of pieces")
        # An empty dimension is one piece without elements; a piece size of 0 is allowed for such a dimension only.
        sizes = [min(piece_size, extent - at) for at in range(0, extent, piece_size)] if piece_size and extent else [0]
    pieces: list[Value] = []
    start: Index = ZERO
    for size in indices(sizes):
        pieces.append(moved_along(x, dim, size, start + loop_variable(dim)))
        start = start + size
    return tuple(pieces)


@lowering(aten.unbind.int)
def unbind(build: Builder, x: Value, dim: int = 0) -> tuple[Value, ...]:
    """One piece for each index of a dimension."""
    extent = known_number(x.size[dimension(dim, x.ndim)])
    if extent is None:
        raise NoLowering("an unbind into a symbolic number of pieces")
    return tuple(select(build, x, dim, at) for at in range(extent))


@lowering(aten.diagonal.default)
def diagonal(_: Builder, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """The diagonal of two dimensions, as the last one."""
    one, two = dimension(dim1, x.ndim), dimension(dim2, x.ndim)
    rows, columns = known_number(x.size[one]), known_number(x.size[two])
    if rows is None or columns is None:
        raise NoLowering("a diagonal of symbolic length")
    #     offset 1 of 3 x 4     . a . .      begins at column 1; a negative offset begins at a row
    #                            . . b .
    #                            . . . c
    extent = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    remaining = [at for at in range(x.ndim) if at not in (one, two)]
    position: list[Index] = [ZERO] * x.ndim
    for new, old in enumerate(remaining):
        position[old] = loop_variable(new)
    along = loop_variable(len(remaining))
    position[one], position[two] = along + max(0, -offset), along + max(0, offset)
    return reindexed(x, [*(x.size[at] for at in remaining), index(extent)], position)


@lowering(aten.unfold.default)
def unfold(_: Builder, x: Value, dim: int, size: int, step: int) -> Value:
    """Windows along a dimension; the window is the new last dimension."""
    dim = dimension(dim, x.ndim)
    if x.ndim == 0:
        raise NoLowering("unfold of a scalar")
    #     unfold(0, 3, 2) of 7 elements     0 1 2 | 2 3 4 | 4 5 6       element 2 * i0 + i1
    windows = divide(x.size[dim] - size, index(step), {}) + 1
    position: list[Index] = list(loop_variables(x.ndim))
    position[dim] = position[dim] * step + loop_variable(x.ndim)
    return reindexed(x, [*x.size[:dim], windows, *x.size[dim + 1 :], index(size)], position)


@lowering(aten.as_strided.default)
def as_strided(build: Builder, x: Value, size: Any, stride: Any, storage_offset: Any = None) -> Value:
    """View with any strides over a tensor's memory; possible where its elements are there in order.

    The value need not be in memory: an element of the view is the value's element that would have this address.
    """
    fake = build.node.args[0].meta["val"] if build.node is not None and build.node.args else None  # type: ignore[union-attr]
    if not isinstance(fake, torch.Tensor):
        raise NoLowering("as_strided of unknown strides")
    predicted = of_tensor(fake)
    if predicted.size != x.size or not _is_row_major(predicted):
        raise NoLowering("as_strided of what is not row-major")
    # The argument counts from the begin of the storage, our index from the first element of x.
    own = index(fake.storage_offset())
    start = ZERO if storage_offset is None else index(storage_offset) - own
    layout = Layout(indices(size), indices(stride), start)
    elements, span = known_number(product(x.size)), known_number(layout.span)
    # The storage may hold more than x (x = base[2:4]); the value does not.
    if elements is None or span is None or span > elements or (known_number(start) or 0) < 0:
        raise NoLowering("as_strided beyond the elements of its buffer")
    ranges = {loop_variable(at): extent for at, extent in enumerate(layout.size)}
    coordinate = layout.at(loop_variables(len(layout.size)))
    return reindexed(x, layout.size, unflatten(coordinate, x.size, ranges))


def _is_row_major(layout: Layout) -> bool:
    step: Index = ONE
    for extent, stride in reversed(list(zip(layout.size, layout.stride, strict=True))):
        if not is_one(extent) and not known_equal(stride, step):
            return False
        step = step * extent
    return True


# -- elements repeated or in another order --------------------------------------------------------


@lowering(aten.flip.default)
def flip(_: Builder, x: Value, dims: Sequence[int]) -> Value:
    """Reverse some dimensions."""
    flipped = {dimension(dim, x.ndim) for dim in dims} if x.ndim else set()
    position = [x.size[at] - 1 - loop_variable(at) if at in flipped else loop_variable(at) for at in range(x.ndim)]
    return reindexed(x, x.size, position)


@lowering(aten.roll.default)
def roll(build: Builder, x: Value, shifts: Sequence[Any], dims: Sequence[int] = ()) -> Value:
    """Rotate along dimensions: elements beyond the end continue at the front."""
    if not dims:
        flat = reshape(build, x, [-1])
        return reshape(build, roll(build, flat, shifts, [0]), x.size)
    # result[i] is x[(i - by) mod extent], written without negative numbers.
    for shift, dim in zip(indices(shifts), dims, strict=True):
        at = dimension(dim, x.ndim)
        extent, by = known_number(x.size[at]), known_number(shift)
        if by is None:
            raise NoLowering("a roll by a symbolic distance")
        if extent is None:
            # by * (size - 1) is congruent to -by modulo the size, and never negative.
            forward = by * (x.size[at] - 1) if by > 0 else sympy.Integer(-by)
            x = moved_along(x, at, x.size[at], Mod(loop_variable(at) + forward, x.size[at]))
        elif extent and by % extent:
            x = moved_along(x, at, x.size[at], Mod(loop_variable(at) + (-by) % extent, extent))
    return x
