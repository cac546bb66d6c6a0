"""Split scans: a scan with too few GPU programs is done in parts, each combined with the result of the parts before it.

    x.cumsum(0) of 1 Mi numbers      buf0[i0]     = sum over r0 < 2048 of x[2048*i0 + r0]        512 programs at once
                                     buf1[i0]     = buf0[0] + ... + buf0[i0]
                                     buf2[i0, i1] = x[2048*i0] + ... + x[2048*i0 + i1]           512 programs at once
                                     result       = buf2[i0, i1] + (buf1[i0 - 1], or 0 in the first part)

The input is read twice, but a single program would wait for memory in every step. On a CPU each thread
has rows of its own, so no scan is split there.

In torch: torch/_inductor/ir.py (SplitScan), which lets a program wait for the one before it. Read next:
nbcompile/lowering/split_reduction.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

import torch

from nbcompile.ir.expr import Expr, IndexOf, Masked, apply, constant
from nbcompile.ir.index import ONE, constant as known, index, loop_variable, loop_variables, unflatten
from nbcompile.lowering import split_reduction
from nbcompile.lowering.value import Value, reindexed

if TYPE_CHECKING:
    from nbcompile.lowering.builder import Builder


def _log_add_exp(left: Expr, right: Expr) -> Expr:
    """``log(exp(left) + exp(right))``; of two equal infinities, whose difference is nan, that one."""
    apart = apply("where", apply("eq", left, right), 0.0, apply("abs", left - right))
    return apply("maximum", left, right) + apply("log1p", apply("exp", apply("neg", apart)))


COMBINE: Mapping[str, Callable[[Expr, Expr], Expr]] = {
    "sum": partial(apply, "add"),
    "prod": partial(apply, "mul"),
    "max": partial(apply, "maximum"),
    "min": partial(apply, "minimum"),
    "logsumexp": _log_add_exp,
}
"""Scans that are split, and what combines two partial results."""
LIKE = {"logsumexp": "max"}
"""Scans that are split as another reduction, and have its neutral element: log(exp(-inf)) is -inf."""


def scan(build: Builder, value: Value, dim: int, kind: str, dtype: torch.dtype, accumulate: torch.dtype) -> Value:
    """Scan along a dimension: in one step, or in parts."""
    number = number_of_parts(value, dim, kind)
    if number == 1:
        return build.scan(value, dim, kind, dtype, accumulate)
    # Read twice: by the totals of the parts, and by the scan of each.
    split = _parts(build.realize_if_costly(value), dim, number, kind)
    totals = _totals(build, split, dim + 1, kind, accumulate)
    carried = build.scan(totals, dim, kind, accumulate, accumulate)
    inside = build.scan(split, dim + 1, kind, accumulate, accumulate)
    combined = replace(inside, dtype=dtype, body=_combined(inside, carried, dim, kind))
    return _whole(combined, value, dim)


def _totals(build: Builder, split: Value, dim: int, kind: str, accumulate: torch.dtype) -> Value:
    if kind == "logsumexp":
        return cast(Value, build.call(torch.ops.aten.logsumexp.default, replace(split, dtype=accumulate), [dim]))
    return build.reduce(split, [dim], False, kind, accumulate, accumulate)


def scan_index(build: Builder, value: Value, best: Value, dim: int, kind: str, compared: torch.dtype) -> Value:
    """Index of the best so far: of equal ones the last, and of nan the last."""
    if number_of_parts(value, dim, kind) == 1:
        return build.scan(value, dim, f"arg{kind}", torch.int64, compared)
    #     value        3  1  4  4  2       it is the best so far where it equals that,
    #     best so far  3  3  4  4  4
    #     candidate    0 -1  2  3 -1       and the last such index so far is the largest
    #     index        0  0  2  3  3
    mine, so_far = value.body, build.realize(best).body
    is_best = apply("eq", mine, so_far)
    if mine.dtype.is_floating_point:
        is_best = apply("logical_or", is_best, apply("isnan", mine))
    candidate = apply("where", is_best, IndexOf(loop_variable(dim), torch.int64), constant(-1, torch.int64))
    return scan(build, replace(value, dtype=torch.int64, body=candidate), dim, "max", torch.int64, torch.int64)


def number_of_parts(value: Value, dim: int, kind: str) -> int:
    """Number of parts to scan a value in (the last may be shorter); 1: in one step, as on a CPU."""
    if value.device.type != "cuda" or kind not in COMBINE:
        return 1
    others = [extent for at, extent in enumerate(value.size) if at != dim]
    along_columns = any(known(extent) != 1 for extent in value.size[dim + 1 :])
    return split_reduction.split_count(others, [value.size[dim]], LIKE.get(kind, kind), along_columns=along_columns)


def _parts(value: Value, dim: int, number: int, kind: str) -> Value:
    """View of a value with a scanned dimension as two: the parts, and what is in each."""
    whole = known(value.size[dim]) or 0
    length = index(split_reduction.part_length(whole, number))
    size = (*value.size[:dim], index(number), length, *value.size[dim + 1 :])
    after = (loop_variable(at + 1) for at in range(dim + 1, value.ndim))
    position = (*loop_variables(dim), length * loop_variable(dim) + loop_variable(dim + 1), *after)
    split = reindexed(value, size, position)
    if whole % number == 0:
        return split
    # The last part is longer than what is left: beyond the end it reads nothing.
    return replace(split, body=_masked(split_reduction.in_part(dim, whole, number), split.body, kind))


def _combined(inside: Value, carried: Value, dim: int, kind: str) -> Expr:
    """An element of a part with the partial result of all parts before it."""
    part = loop_variable(dim)
    position = (*loop_variables(dim), part - ONE, *(loop_variable(at + 1) for at in range(dim + 1, carried.ndim)))
    before = reindexed(carried, inside.size, position).body
    is_later = apply("gt", IndexOf(part, torch.int64), constant(0, torch.int64))
    return COMBINE[kind](_masked(is_later, before, kind), inside.body)


def _masked(condition: Expr, value: Expr, kind: str) -> Expr:
    """A value where the condition holds, elsewhere the one that changes no result."""
    return Masked(condition, value, split_reduction.identity(LIKE.get(kind, kind), value.dtype))


def _whole(combined: Value, value: Value, dim: int) -> Value:
    """View of a value in parts with the dimensions that it had."""
    at = loop_variable(dim)
    coordinates = unflatten(at, combined.size[dim : dim + 2], {at: value.size[dim]})
    after = map(loop_variable, range(dim + 1, value.ndim))
    return reindexed(combined, value.size, (*loop_variables(dim), *coordinates, *after))
