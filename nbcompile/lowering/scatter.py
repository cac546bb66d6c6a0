"""Scatters: operators that write at gathered indices.

    index_put(x, [ids], v, accumulate=True)    a copy of x with  x[ids[i0], i1] += v[i0, i1]
    embedding_dense_backward(g, ids, n)        zeros with        z[ids[i0], i1] += g[i0, i1]

In torch: torch/_inductor/lowering.py (index_put_, scatter_reduce_). Read next:
nbcompile/lowering/creation.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nbcompile.ir.expr import Constant, Expr, IndexOf, apply, cast, compute_dtype, constant
from nbcompile.ir.index import ZERO, Index, index, is_one, loop_variable, loop_variables
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.dtype_cast import convert
from nbcompile.lowering.elementwise import elementwise
from nbcompile.lowering.indexing import index_at, indexed_dims, require_same_device
from nbcompile.lowering.registry import NoLowering, lowering
from nbcompile.lowering.value import Value, broadcast_size, broadcast_to, reindexed
from nbcompile.lowering.views import dimension

aten = torch.ops.aten


def _everywhere(target: Value, number: Any, size: Sequence[Index]) -> Value:
    """One number (or a value without dimensions) as a tensor."""
    if isinstance(number, Value):
        return broadcast_to(number, size)
    body = constant(number, compute_dtype(target.dtype))
    return Value(target.dtype, target.device, tuple(size), body)


def _sum_kind(target: Value) -> str:
    return "any" if target.dtype == torch.bool else "sum"


# -- index_put: x[ids, :, more] = values ----------------------------------------------------------


@lowering(aten.index_put.default, aten._unsafe_index_put.default)
def index_put(
    build: Builder, x: Value, index_tensors: Sequence[Value | None], values: Value, accumulate: bool = False
) -> Value:
    """Store at the broadcast index tensors; a boolean mask with one value becomes a ``where``."""
    given = {at: each for at, each in enumerate(index_tensors) if each is not None}
    require_same_device(x, values, *given.values())
    masks = [each for each in given.values() if each.dtype in (torch.bool, torch.uint8)]
    if masks:
        return _masked_put(build, x, index_tensors, values, accumulate)
    common = broadcast_size(*(each.size for each in given.values()))
    # The values have the shape that x[...] would have.
    indexed = indexed_dims(x, tuple(given), common)
    #     x[:, ids] = v        v[i0, i1] goes to x[i0, g0], with g0 = ids[i1]
    # The loops are those of the values; where each of them goes is the position.
    position = {old: IndexOf(loop_variable(new), torch.int64) for old, new in indexed.unindexed.items()}
    for order, (at, given_index) in enumerate(given.items()):
        ids = index_at(broadcast_to(given_index, common), indexed.first, len(indexed.size))
        symbol, gathered = build.gather(ids, x.size[at], wraps=True, dim=order)
        position[at] = IndexOf(symbol, torch.int64, (gathered,))
    ordered = [position[at] for at in range(x.ndim)]
    return build.scatter(x, broadcast_to(values, indexed.size), ordered, _sum_kind(x) if accumulate else "store")


def _masked_put(
    build: Builder, x: Value, index_tensors: Sequence[Value | None], values: Value, accumulate: bool
) -> Value:
    """``x[mask] = 0``"""
    mask = index_tensors[0]
    if (
        len(index_tensors) != 1
        or mask is None
        or mask.dtype != torch.bool
        or any(not is_one(each) for each in values.size)
    ):
        raise NoLowering("a mask as an index: how many values are taken depends on data")
    while mask.ndim < x.ndim:
        mask = build.call(aten.unsqueeze.default, mask, -1)
    # x[mask] = 0 is where(mask, 0, x), whose size is known. With several values, the position of each would depend on
    # the mask's elements before it.
    number = reindexed(values, (), [ZERO] * values.ndim)
    changed = convert(build, number, x.dtype)
    if accumulate:
        changed = build.call(aten.add.Tensor, x, changed)
    result: Value = build.call(aten.where.self, mask, changed, x)
    return result


# -- scatter: along one dimension ------------------------------------------------------------------

_KINDS = {"add": "sum", "sum": "sum", "multiply": "prod", "prod": "prod", "amax": "max", "amin": "min"}


@lowering(aten.scatter.src, aten.scatter.value)
def scatter(build: Builder, x: Value, dim: int, ids: Value, source: Any) -> Value:
    """``x[ids[i, j], j] = source[i, j]``"""
    return _along(build, x, dim, ids, source, "store")


@lowering(aten.scatter.reduce, aten.scatter.value_reduce)
def scatter_with(build: Builder, x: Value, dim: int, ids: Value, source: Any, *, reduce: str) -> Value:
    """``x[ids[i, j], j] += source[i, j]``, or ``*=``"""
    if x.dtype == torch.bool:
        raise NoLowering(f"scatter with {reduce} of torch.bool")
    return _along(build, x, dim, ids, source, _KINDS[reduce])


@lowering(aten.scatter_add.default)
def scatter_add(build: Builder, x: Value, dim: int, ids: Value, source: Value) -> Value:
    """``x[ids[i, j], j] += source[i, j]``"""
    return _along(build, x, dim, ids, source, _sum_kind(x))


@lowering(aten.scatter_reduce.two)
def scatter_reduce(
    build: Builder, x: Value, dim: int, ids: Value, source: Value, reduce: str, *, include_self: bool = True
) -> Value:
    """Any of the reductions, with or without the old elements."""
    # The mean needs the number of updates of each element.
    if reduce not in _KINDS or x.dtype == torch.bool:
        raise NoLowering(f"scatter_reduce with {reduce} of {x.dtype}")
    kind = _KINDS[reduce]
    if not include_self:
        # Elements that are updated begin with the value that changes no result; all others keep x.
        x = _along(build, x, dim, ids, _neutral(kind, x.dtype), "store")
    return _along(build, x, dim, ids, source, kind)


def _neutral(kind: str, dtype: torch.dtype) -> float | int:
    if kind in ("sum", "prod"):
        return int(kind == "prod")
    if dtype.is_floating_point:
        return float("-inf") if kind == "max" else float("inf")
    limits = torch.iinfo(dtype)
    return limits.min if kind == "max" else limits.max


def _along(build: Builder, x: Value, dim: int, ids: Value, source: Any, kind: str) -> Value:
    if x.ndim == 0 or ids.ndim == 0:
        raise NoLowering("scatter with a scalar")
    require_same_device(x, ids, *([source] if isinstance(source, Value) else []))
    dim = dimension(dim, x.ndim)
    # The source may be larger than the index: only its part of the index's size is read.
    source = _everywhere(x, source, ids.size) if not isinstance(source, Value) or not source.ndim else source
    symbol, gathered = build.gather(ids, x.size[dim], wraps=False, dim=dim)
    position = [IndexOf(each, torch.int64) for each in loop_variables(x.ndim)]
    position[dim] = IndexOf(symbol, torch.int64, (gathered,))
    part = Value(source.dtype, source.device, ids.size, source.body, source.from_nodes)
    return build.scatter(x, part, position, kind)


@lowering(aten.index_add.default)
def index_add(build: Builder, x: Value, dim: int, ids: Value, source: Value, *, alpha: Any = 1) -> Value:
    """``x[:, ids] += alpha * source``"""
    if alpha != 1:
        source = build.call(aten.mul.Scalar, source, alpha)
    return _slices(build, x, _Slices(dim, ids), source, _sum_kind(x))


@lowering(aten.index_copy.default)
def index_copy(build: Builder, x: Value, dim: int, ids: Value, source: Value) -> Value:
    """``x[:, ids] = source``"""
    return _slices(build, x, _Slices(dim, ids), source, "store")


@lowering(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def index_fill(build: Builder, x: Value, dim: int, ids: Value, value: Any) -> Value:
    """``x[:, ids] = value``; here an index may count from the end."""
    if x.ndim == 0 or ids.ndim != 1:
        raise NoLowering("whole slices of a scalar")
    size = [*x.size]
    size[dimension(dim, x.ndim)] = ids.size[0]
    source = _everywhere(x, value, size)
    return _slices(build, x, _Slices(dim, ids, wraps=True), convert(build, source, x.dtype), "store")


@dataclass(frozen=True, slots=True)
class _Slices:
    """Slices ``x[:, ids]`` of a tensor along a dimension."""

    dim: int
    ids: Value
    wraps: bool = False
    """True if an index may count from the end."""


def _slices(build: Builder, x: Value, slices: _Slices, source: Value, kind: str) -> Value:
    ids = slices.ids
    if x.ndim == 0 or ids.ndim != 1 or source.ndim != x.ndim:
        raise NoLowering("whole slices of a scalar")
    require_same_device(x, ids, source)
    dim = dimension(slices.dim, x.ndim)
    # Eager adds rows of a matrix by scatter_add, whose error names the dimension.
    known = dim if kind == "store" or (x.ndim > 1 and dim in (0, x.ndim - 1)) else None
    symbol, gathered = build.gather(index_at(ids, dim, x.ndim), x.size[dim], slices.wraps, known)
    position = [IndexOf(each, torch.int64) for each in loop_variables(x.ndim)]
    position[dim] = IndexOf(symbol, torch.int64, (gathered,))
    return build.scatter(x, source, position, kind)


# -- gradients of gathers ---------------------------------------------------------------------------


@lowering(aten.embedding_dense_backward.default)
def embedding_dense_backward(
    build: Builder, grad: Value, ids: Value, rows: Any, padding_idx: Any, scale_grad_by_freq: bool
) -> Value:
    """Gradient of an embedding: each row of the weight accumulates the gradients of its look-ups."""
    if scale_grad_by_freq:
        raise NoLowering("gradients scaled by how often a row is used")
    coordinate = index_at(ids, 0, grad.ndim)
    symbol, gathered = build.gather(coordinate, index(rows), wraps=False)

    def without_padding(at: Expr, g: Expr) -> Expr:
        return apply("where", apply("eq", cast(at, torch.int64), Constant(padding_idx, torch.int64)), 0.0, g)

    # The padding's row gets no gradient: its updates add 0.
    if padding_idx >= 0:
        padding = Value(ids.dtype, ids.device, grad.size, coordinate.body, ids.from_nodes)
        grad = elementwise(build, without_padding, (padding, grad))
    width = grad.size[-1]
    zeros = _everywhere(grad, 0.0, (index(rows), width))
    position = [IndexOf(symbol, torch.int64, (gathered,)), IndexOf(loop_variable(grad.ndim - 1), torch.int64)]
    return build.scatter(zeros, grad, position, "sum")
