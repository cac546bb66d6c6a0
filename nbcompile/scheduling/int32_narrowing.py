"""Narrowing of int64 index arithmetic, and of counts, to int32 by value-range analysis.

    where(int64(i1) >= int64(i2), x[i1, i2], -inf)    i1, i2 < 256
    ->  where(int32(i1) >= int32(i2), x[i1, i2], -inf)
    sum(r0 < 1000; int64(x[r0] > 0))  ->  int64(sum(r0 < 1000; int32(x[r0] > 0)))

A causal mask compares indices, which are int64 in eager mode. One such value
would halve the SIMD lanes of a whole kernel, though no index is ever large.
Where the value range of an expression over indices and constants fits in 32
bits, and only comparisons and casts use it, it is computed in int32. A sum of
small values over a known number of elements is narrowed in the same way.

In torch: torch/_inductor/optimize_indexing.py. Read next:
nbcompile/scheduling/loops.py
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from nbcompile.ir.buffer import Buffer, Program, Reduction, ranges
from nbcompile.ir.expr import Apply, Constant, Expr, IndexOf, cast
from nbcompile.ir.index import Ranges, constant, lower_bound, product, upper_bound
from nbcompile.ir.traversal import rebuild

LIMIT = 2**31
Bounds = tuple[int, int]


def narrow_count_sums(program: Program) -> Program:
    """Accumulate sums of small integers in 32 bits, where the number of elements bounds the result."""
    return replace(program, buffers=tuple(map(_narrow_count_sum, program.buffers)))


def _narrow_count_sum(buffer: Buffer) -> Buffer:
    if not isinstance(buffer, Reduction) or buffer.kind != "sum" or buffer.accumulate != torch.int64:
        return buffer
    count, most = constant(product(buffer.reduced)), bounds(buffer.body, ranges(buffer))
    # Not only the result must fit, but each partial sum, in any order: hence the bound by absolute values.
    if count is None or most is None or count * max(map(abs, most)) >= LIMIT:
        return buffer
    return replace(buffer, body=_in_32_bits(buffer.body), accumulate=torch.int32)


def narrow_to_int32(body: Expr, ranges: Ranges) -> Expr:
    """Compute the operands of comparisons and casts in int32 where their value ranges allow it."""
    body = rebuild(body, lambda part: narrow_to_int32(part, ranges))
    match body:
        # Only where the type of the operands does not show in the result. An int64 sum that is stored has to be int64.
        case Apply("eq" | "ne" | "lt" | "le" | "gt" | "ge", args) if _all_small(args, ranges):
            return replace(body, args=tuple(map(_in_32_bits, args)))
        case Apply("cast", args, dtype) if _all_small(args, ranges):
            return _in_32_bits(args[0]) if dtype == torch.int32 else replace(body, args=(_in_32_bits(args[0]),))
    return body


def _all_small(args: tuple[Expr, ...], ranges: Ranges) -> bool:
    return all(arg.dtype == torch.int64 and bounds(arg, ranges) is not None for arg in args)


def bounds(body: Expr, ranges: Ranges) -> Bounds | None:
    """The value range of an integer expression, if it and all its subexpressions fit in 32 bits; otherwise None."""
    found = _bounds(body, ranges)
    return found if found is not None and found[0] >= -LIMIT and found[1] < LIMIT else None


def _bounds(body: Expr, ranges: Ranges) -> Bounds | None:
    match body:
        case Constant(value=int() as value):
            return value, value
        case IndexOf(index=index, gathers=()) if lower_bound(index) is not None:
            most = upper_bound(index, ranges)
            number = None if most is None else constant(most)
            return None if number is None else (0, number)
        case Apply("cast", (given,)) if given.dtype in _SMALL:
            return _SMALL[given.dtype]
        case Apply(op, args) if op in _RULES:
            # Each part is bounded, too: in (i0 * 70000) // 70000 the quotient fits in 32 bits, the product does not.
            parts = [bounds(arg, ranges) for arg in args]
            known = [part for part in parts if part is not None]
            return _RULES[op](*known) if len(known) == len(parts) else None
    return None


def _product(one: Bounds, two: Bounds) -> Bounds:
    # A product over two intervals is extreme at the corners; with negative numbers any of the four may be the largest.
    corners = [a * b for a in one for b in two]
    return min(corners), max(corners)


_SMALL: dict[torch.dtype, Bounds] = {torch.bool: (0, 1)} | {
    dtype: (torch.iinfo(dtype).min, torch.iinfo(dtype).max) for dtype in (torch.uint8, torch.int8, torch.int16)
}
"""The value ranges of the types that are narrower than 32 bits."""
_RULES: dict[str, Callable[..., Bounds]] = {
    "add": lambda one, two: (one[0] + two[0], one[1] + two[1]),
    "sub": lambda one, two: (one[0] - two[1], one[1] - two[0]),
    "mul": _product,
    "neg": lambda one: (-one[1], -one[0]),
    "maximum": lambda one, two: (max(one[0], two[0]), max(one[1], two[1])),
    "minimum": lambda one, two: (min(one[0], two[0]), min(one[1], two[1])),
}


def _in_32_bits(body: Expr) -> Expr:
    match body:
        case Constant(value):
            return Constant(value, torch.int32)
        case IndexOf():
            return replace(body, dtype=torch.int32)
        case Apply("cast", (given,)):
            return cast(given, torch.int32)
        case Apply(args=args):
            return replace(body, args=tuple(map(_in_32_bits, args)), dtype=torch.int32)
    raise AssertionError(body)
