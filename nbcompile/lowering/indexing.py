"""Operators whose indices are read from memory.

    embedding(w, ids)    w[g0, i2] with g0 = ids[i0, i1], checked against w's rows

In torch: torch/_inductor/lowering.py (index, gather, embedding). Read next:
nbcompile/lowering/scatter.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from nbcompile.ir import evaluate
from nbcompile.ir.expr import Apply, Expr, Gather, IndexOf, Load, apply, cast, constant
from nbcompile.ir.index import ZERO, Index, Symbol, constant as known_number, divide, index, is_one, loop_variable
from nbcompile.ir.traversal import cost, walk
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.registry import NoLowering, lowering
from nbcompile.lowering.value import Value, broadcast_size, broadcast_to, is_free, merge_nodes, reindexed
from nbcompile.lowering.views import dimension

aten = torch.ops.aten
_CHEAP = 4


def _source(build: Builder, x: Value) -> Value:
    # An element may be gathered many times, so it is stored and not recomputed each time.
    return x if is_free(x) or (cost(x.body) <= _CHEAP and isinstance(x.body, Apply)) else build.realize(x)


KNOWN_LIMIT = 4096
"""Maximal number of indices that are evaluated at compile time."""


def known_index(ids: Value, extent: Index) -> Index | None:
    """An index tensor that depends only on loop variables, as a formula: resizing an image loads at ``i0 // 2``."""
    variables = [loop_variable(at) for at in range(ids.ndim) if not is_one(ids.size[at]) and mentions(ids.body, at)]
    limit, count = known_number(extent), known_number(ids.size[int(variables[0].name[1:])]) if variables else None
    if len(variables) != 1 or limit is None or count is None or not 1 < count <= KNOWN_LIMIT:
        return None
    found = evaluate.tabulate(cast(ids.body, torch.int64), variables[0], count)
    # An index out of bounds is an error at run time, so it stays a gather, which is checked.
    if found is None or min(found) < 0 or max(found) >= limit:
        return None
    return _as_formula(found, variables[0])


def _as_formula(values: Sequence[int], variable: Symbol) -> Index | None:
    """The values as a formula of their position: 3, 5, 7 is ``3 + 2*i0``, and 4, 4, 5, 5 is ``4 + i0 // 2``."""
    first, step, repeated = values[0], values[1] - values[0], values.count(values[0])
    if values == [first + step * at for at in range(len(values))]:
        return first + step * variable
    if values == [first + at // repeated for at in range(len(values))]:
        #     0 0 1 1 2 2        i0 // 2: nearest neighbours of an image that is twice as large
        return first + divide(variable, index(repeated), {})
    return None


def mentions(body: Expr, at: int) -> bool:
    """Return whether a body depends on a loop variable."""
    coordinates = (getattr(node, "index", ()) for node in walk(body))
    return any(
        loop_variable(at) in part.free_symbols
        for coordinate in coordinates
        for part in (coordinate if isinstance(coordinate, tuple) else (coordinate,))
    )


def index_at(value: Value, first: int, ndim: int) -> Value:
    """An index tensor as a value over a larger shape, its dimensions beginning at ``first``."""
    position = [ZERO if is_one(extent) else loop_variable(first + at) for at, extent in enumerate(value.size)]
    return reindexed(value, [loop_variable(0)] * ndim, position)


def _picked(
    build: Builder, x: Value, size: Sequence[Index], position: list[Index], gathers: list[Gather], *parts: Value
) -> Value:
    body = _checked(reindexed(x, size, position, tuple(gathers)).body, gathers)
    nodes = merge_nodes(x.from_nodes, *(part.from_nodes for part in parts), build.origin())
    return Value(x.dtype, x.device, tuple(size), body, nodes)


def _checked(body: Expr, gathers: Sequence[Gather]) -> Expr:
    """The body, with the check of each index that it does not use: ``zeros(3)[ids]`` is 0, or an IndexError."""
    used = {gather.symbol for node in walk(body) if isinstance(node, (Load, IndexOf)) for gather in node.gathers}
    for gather in gathers:
        if gather.symbol not in used:
            in_bounds = apply("ge", IndexOf(gather.symbol, torch.int64, (gather,)), constant(0, torch.int64))
            # Two equal branches would be simplified to one of them, without the check.
            other = constant(int(body == constant(0, body.dtype)), body.dtype)
            body = apply("where", in_bounds, body, other)
    return body


@lowering(aten.embedding.default)
def embedding(
    build: Builder, weight: Value, ids: Value, padding_idx: Any = -1, scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:  # fmt: skip
    """A row of the weight for each id."""
    return _rows(build, weight, 0, ids, wraps=False)


@lowering(aten.index_select.default)
def index_select(build: Builder, x: Value, dim: int, ids: Value) -> Value:
    """Select indices of a dimension."""
    if x.ndim == 0 or ids.ndim != 1:
        raise NoLowering("index_select with a scalar")
    return _rows(build, x, dimension(dim, x.ndim), ids, wraps=False)


def _rows(build: Builder, x: Value, dim: int, ids: Value, wraps: bool) -> Value:
    require_same_device(x, ids)
    x = _source(build, x)
    size = [*x.size[:dim], *ids.size, *x.size[dim + 1 :]]
    symbol, gather = build.gather(index_at(ids, dim, len(size)), x.size[dim], wraps, dim)
    # x of (v, w), ids of (a, b): the result is (a, b, w), and w moves by one dimension.
    shift = ids.ndim - 1
    position = [symbol if at == dim else loop_variable(at if at < dim else at + shift) for at in range(x.ndim)]
    return _picked(build, x, size, position, [gather], ids)


@lowering(aten.gather.default)
def gather(build: Builder, x: Value, dim: int, ids: Value, *, sparse_grad: bool = False) -> Value:
    """Gather along one dimension: the element at the index that ``ids`` has at the same position."""
    require_same_device(x, ids)
    if x.ndim == 0 or ids.ndim == 0:
        raise NoLowering("gather with a scalar")
    dim = dimension(dim, x.ndim)
    x = _source(build, x)
    # ATen's gather and embedding take no negative index, x[ids] does (wraps).
    symbol, gathered = build.gather(ids, x.size[dim], wraps=False, dim=dim)
    position = [symbol if at == dim else loop_variable(at) for at in range(x.ndim)]
    return _picked(build, x, ids.size, position, [gathered], ids)


@lowering(aten.index.Tensor, aten._unsafe_index.Tensor)
def index_tensor(build: Builder, x: Value, index_tensors: Sequence[Value | None]) -> Value:
    """``x[ids, :, more]``: index tensors broadcast together, the rest stays."""
    given = {at: each for at, each in enumerate(index_tensors) if each is not None}
    if any(each.dtype in (torch.bool, torch.uint8) for each in given.values()):
        raise NoLowering("a mask as an index: the size of the result depends on data")
    require_same_device(x, *given.values())
    x = _source(build, x)
    common = broadcast_size(*(each.size for each in given.values()))
    indexed = indexed_dims(x, tuple(given), common)
    position: dict[int, Index] = {old: loop_variable(new) for old, new in indexed.unindexed.items()}
    gathers: list[Gather] = []
    for order, (at, given_index) in enumerate(given.items()):
        ids = index_at(broadcast_to(given_index, common), indexed.first, len(indexed.size))
        # An index that is a formula of the loops (arange, a slice) needs no gather, and its bounds are known here.
        formula = known_index(replace(ids, size=indexed.size), x.size[at])
        if formula is not None:
            position[at] = formula
            continue
        symbol, gathered = build.gather(ids, x.size[at], wraps=True, dim=order)  # as eager counts
        position[at] = symbol
        gathers.append(gathered)
    return _picked(build, x, indexed.size, [position[at] for at in range(x.ndim)], gathers, *given.values())


@dataclass(frozen=True, slots=True)
class IndexedDims:
    """Dimensions of ``x[i, :, j]``, and where they come from."""

    size: tuple[Index, ...]
    first: int
    """The first dimension of the result that is one of the index tensors'."""
    unindexed: Mapping[int, int]
    """Dimension of the result for each dimension of x that no tensor indexes."""


def indexed_dims(x: Value, given: Sequence[int], common: Sequence[Index]) -> IndexedDims:
    """Lay out the result of indexing some dimensions by tensors whose common (broadcast) size is given.

    Where the indexed dimensions are adjacent, the common size replaces them, else it comes first:

    x[:, i, j, :]  ->  [x0, *broadcast(i, j), x3]
    x[i, :, j, :]  ->  [*broadcast(i, j), x1, x3]
    """
    is_adjacent = max(given) - min(given) + 1 == len(given)
    first = min(given) if is_adjacent else 0
    unindexed = [at for at in range(x.ndim) if at not in given]
    before, after = unindexed[:first], unindexed[first:]
    size = (*(x.size[at] for at in before), *common, *(x.size[at] for at in after))
    return IndexedDims(size, first, {old: at if at < first else at + len(common) for at, old in enumerate(unindexed)})


@lowering(aten.take.default)
def take(build: Builder, x: Value, ids: Value) -> Value:
    """Select elements by linear index."""
    # One index for the elements in row-major order, whatever the strides: a view as one dimension, then ``x[ids]``.
    flat: Value = build.call(aten.view.default, x, [-1])
    picked: Value = index_tensor(build, flat, [ids])
    return picked


def require_same_device(*values: Value) -> None:
    """Raise NoLowering where an index is on another device than what it is for."""
    if len({each.device for each in values}) > 1:
        raise NoLowering("indices on another device")
