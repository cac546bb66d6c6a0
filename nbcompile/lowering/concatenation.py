"""Concatenation: ``cat``, ``stack``, ``repeat`` and padding as one body that chooses a part by its index.

    cat([a, b]) of 3 and 5 rows
    out[i0, i1] = a[i0, i1] if i0 < 3 else b[i0 - 3, i1]

Each part is loaded under a mask: only elements of the part that is chosen are read.

In torch: torch/_inductor/lowering.py (``pointwise_cat``, ``constant_pad_nd``). Read next: nbcompile/lowering/views.py
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch

from nbcompile.ir.expr import Expr, IndexOf, Masked, apply, constant
from nbcompile.ir.index import (
    ONE,
    ZERO,
    Index,
    constant as known_number,
    indices,
    is_one,
    loop_variable,
    remainder,
)
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.dtype_cast import convert
from nbcompile.lowering.elementwise import common_device, promoted
from nbcompile.lowering.registry import NoLowering, lowering
from nbcompile.lowering.value import Value, merge_nodes, reindexed
from nbcompile.lowering.views import dimension, moved_along, unsqueeze

aten = torch.ops.aten


@lowering(aten.repeat.default)
def repeat(_: Builder, x: Value, repeats: Sequence[Any]) -> Value:
    """Repeat the tensor along each dimension."""
    times = indices(repeats)
    missing = len(times) - x.ndim
    old = (*[ONE] * missing, *x.size)
    size = [extent * count for extent, count in zip(old, times, strict=True)]
    ranges = {loop_variable(at): extent for at, extent in enumerate(size)}
    # x of 3, three times: element i0 of 9 is x[i0 % 3].
    position = [
        ZERO if is_one(old[at]) else loop_variable(at) if is_one(times[at])
        else remainder(loop_variable(at), old[at], ranges)
        for at in range(missing, len(times))
    ]  # fmt: skip
    return reindexed(x, size, position)


def below(coordinate: Index, bound: Index) -> Expr:
    """``position < bound``, as a value."""
    return apply("lt", IndexOf(coordinate, torch.int64), number_of(bound))


def at_least(coordinate: Index, bound: Index) -> Expr:
    """``position >= bound``, as a value."""
    return apply("ge", IndexOf(coordinate, torch.int64), number_of(bound))


def number_of(coordinate: Index) -> Expr:
    """An index as a value."""
    number = known_number(coordinate)
    return IndexOf(coordinate, torch.int64) if number is None else constant(number, torch.int64)


def both(conditions: list[Expr]) -> Expr:
    """All of several conditions."""
    result = conditions[0]
    for condition in conditions[1:]:
        result = apply("logical_and", result, condition)
    return result


_CAT_LIMIT = 8


@lowering(aten.cat.default)
def cat(build: Builder, tensors: Sequence[Value], dim: int = 0) -> Value:
    """Concatenate along a dimension."""
    # A 1-d tensor without elements may be among tensors of any shape.
    parts = [each for each in tensors if not (each.ndim == 1 and each.size[0] == 0)] or [tensors[0]]
    if len(parts) > _CAT_LIMIT:
        raise NoLowering(f"a concatenation of more than {_CAT_LIMIT} tensors: ATen copies each in one go")
    device = common_device(list(tensors))
    dtype = promoted(*tensors)
    dim = dimension(dim, parts[0].ndim)
    # A part that is empty along the dimension contributes no element: nothing may be loaded from it.
    filled = [part for part in parts if part.size[dim] != 0] or parts[:1]
    parts = [convert(build, part, dtype) for part in filled]
    ends: list[Index] = list(itertools.accumulate(part.size[dim] for part in parts))
    total = ends[-1]
    size = (*parts[0].size[:dim], total, *parts[0].size[dim + 1 :])
    along = loop_variable(dim)
    # Built from the last part, which needs no condition, to the first:  a where i < 4, else (b where i < 6, else c).
    body: Expr | None = None
    for part, end in zip(reversed(parts), reversed(ends), strict=True):
        # Where a part of one row is read at all, it is read at 0.
        coordinate = ZERO if is_one(part.size[dim]) else along - (end - part.size[dim])
        piece = moved_along(part, dim, total, coordinate).body
        body = piece if body is None else Masked(below(along, end), piece, body)
    assert body is not None
    nodes = merge_nodes(*(each.from_nodes for each in parts), build.origin())
    return Value(dtype, device, size, body, nodes)


@lowering(aten.stack.default)
def stack(build: Builder, tensors: Sequence[Value], dim: int = 0) -> Value:
    """Concatenate along a new dimension."""
    at = dim % (tensors[0].ndim + 1)
    return cat(build, [unsqueeze(build, each, at) for each in tensors], at)


@lowering(aten.constant_pad_nd.default)
def constant_pad(build: Builder, x: Value, pad: Sequence[Any], value: Any = 0) -> Value:
    """Pad with one number; a negative width removes elements."""
    before, after = [ZERO] * x.ndim, [ZERO] * x.ndim
    amounts = indices(pad)
    # torch pads the last dimension first: (left, right, top, bottom, ...).
    for n in range(len(amounts) // 2):
        before[x.ndim - 1 - n], after[x.ndim - 1 - n] = amounts[2 * n], amounts[2 * n + 1]
    size = tuple(one + extent + two for one, extent, two in zip(before, x.size, after, strict=True))
    # Beyond the border the index is out of bounds: there the load is masked.
    inner = reindexed(x, size, [loop_variable(at) - before[at] for at in range(x.ndim)])
    conditions: list[Expr] = []
    for at in range(x.ndim):
        # Where elements are removed, every index is in bounds.
        if before[at] != ZERO and not before[at].is_nonpositive:
            conditions.append(at_least(loop_variable(at), before[at]))
        if after[at] != ZERO and not after[at].is_nonpositive:
            conditions.append(below(loop_variable(at), before[at] + x.size[at]))
    if not conditions:
        return inner
    # Rounded to x's type, as memory would round it, in the type that the kernel computes in.
    border = constant(constant(value, x.dtype).value, inner.body.dtype)
    body = Masked(both(conditions), inner.body, border)
    return Value(x.dtype, x.device, size, body, merge_nodes(x.from_nodes, build.origin()))
