"""Two reductions of a long row, of which the second needs the first, in one pass over memory on a GPU.

    softmax of 4 x 50257     24 parts a row, each: its largest number m and its sum s of exp(x - m)
                             of a row:             M = max of m;  S = sum of s * exp(m - M)
    variance of 16 x 32000   10 parts a row, each: its mean m and its sum q of (x - m)**2, of n numbers
                             of a row:             M = sum of n*m / n;  Q = sum of q + n * (m - M)**2

A part is short enough for registers, so that it is loaded once. Reduced one after the other, the parts would be loaded
for each reduction, and the results of the first would be combined by a launch of their own in between.

In torch: prepare_softmax_online and welford_reduction (torch/_inductor/lowering.py). Read next:
nbcompile/lowering/split_reduction.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from nbcompile.ir.expr import Expr, IndexOf, Masked, apply, constant
from nbcompile.ir.index import ONE, Index, constant as known, is_one, loop_variable, product
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.elementwise import elementwise
from nbcompile.lowering.split_reduction import ReductionOperand, in_part, number_of_parts, part_length, parts
from nbcompile.lowering.value import Value, reindexed


@dataclass(frozen=True, slots=True)
class LongRows:
    """Rows that are reduced in parts."""

    operand: ReductionOperand
    number: int
    """Parts of each row."""

    @property
    def value(self) -> Value:
        """The value whose rows these are."""
        return self.operand.value

    @property
    def at(self) -> int:
        """Dimension of the parts; what is in a part is the next one."""
        return len(self.operand.kept_dims)

    @property
    def length(self) -> int:
        """Numbers of a row."""
        return known(product(self.value.size[at] for at in self.operand.reduced_dims)) or 0

    def keep_dims(self, result: Value) -> Value:
        """A result of each row, with a dimension of size 1 for each reduced one."""
        kept_dims = self.operand.kept_dims
        whole = [extent if at in kept_dims else ONE for at, extent in enumerate(self.value.size)]
        return reindexed(result, whole, [loop_variable(at) for at in kept_dims])


def long_rows(build: Builder, value: Value, dims: Sequence[int]) -> LongRows | None:
    """The rows of a value, if they would be reduced in parts; None if not."""
    kept = tuple(at for at in range(value.ndim) if at not in dims)
    reduced = tuple(at for at in dims if not is_one(value.size[at]))
    operand = ReductionOperand(value, kept, reduced)
    number, of_rows = number_of_parts(build, operand, "sum")
    return LongRows(operand, number) if of_rows else None


def shifted(build: Builder, largest: Value, shift: Callable[[Expr], Expr] | None) -> Value:
    """Value to subtract from the numbers of a row whose largest one is known: that itself, or a function of it."""
    return largest if shift is None else build.realize(elementwise(build, shift, (largest,)))


def largest_and_total(build: Builder, rows: LongRows, shift: Callable[[Expr], Expr] | None) -> tuple[Value, Value]:
    """The largest number of each row, and the sum of ``exp(x - shift(largest))``, both with ``keepdim``."""
    at, dtype = rows.at, rows.value.dtype
    split = parts(rows.operand, rows.number, "max", dtype)
    of_part = build.reduce(split, [at + 1], True, "max", dtype, dtype)
    # A part may consist only of -inf; it adds nothing. A larger one may be inf, and the total is nan, or inf.
    finite = build.realize(elementwise(build, lambda m: apply("where", apply("isinf", m), 0.0, m), (of_part,)))
    powers = elementwise(build, lambda a, m: apply("exp", a - m), (split, finite))
    total_of_part = build.reduce(powers, [at + 1], False, "sum", dtype, dtype)
    #     x            rows, parts, numbers of a part
    #     of_part      rows, parts, 1                    keepdim, to be subtracted from x
    #     of_parts     rows, parts                       to be combined
    of_parts = _without_last(of_part)
    largest = build.reduce(of_parts, [at], True, "max", dtype, dtype)
    subtracted = shifted(build, largest, shift)
    scaled = elementwise(build, lambda s, m, all_: s * apply("exp", m - all_), (total_of_part, of_parts, subtracted))
    total = build.reduce(scaled, [at], False, "sum", dtype, dtype)
    return rows.keep_dims(_without_last(largest)), rows.keep_dims(total)


def mean_and_squares(build: Builder, rows: LongRows) -> tuple[Value, Value]:
    """The mean of each row, and the sum of the squares of the distances from it, both with ``keepdim``.

    Both means are corrected by the sum of the distances from them, as in `corrected_moments`: if all numbers are equal,
    the mean of each part is the number itself, and so is that of the row.
    """
    at, dtype = rows.at, rows.value.dtype
    split = parts(rows.operand, rows.number, "sum", dtype)
    count = replace(split, body=_count(rows, dtype), size=(*split.size[:-1], ONE))
    sum_of_part = build.reduce(split, [at + 1], True, "sum", dtype, dtype)
    first = build.realize(elementwise(build, lambda s, n: s / n, (sum_of_part, count)))
    distances = _inside(rows, elementwise(build, lambda a, m: a - m, (split, first)))
    squares = _inside(rows, elementwise(build, lambda a, m: (a - m) * (a - m), (split, first)))
    error = build.reduce(distances, [at + 1], True, "sum", dtype, dtype)
    squares_of_first = build.reduce(squares, [at + 1], True, "sum", dtype, dtype)
    #     x                rows, parts, numbers of a part
    #     mean_of_part     rows, parts                       stored, as is squares_of_part
    #     average          rows, 1
    numbers, columns = _without_last(count), (first, error, count)
    mean_of_part = _stored(build, elementwise(build, lambda m, s, n: m + s / n, columns))
    # No sum of squares is negative, whatever was rounded; NaN stays NaN.
    corrected = lambda q, s, n: apply("maximum", q - s * (s / n), 0.0)
    squares_of_part = _stored(build, elementwise(build, corrected, (squares_of_first, error, count)))
    average = _mean_of_parts(build, rows, numbers, mean_of_part)
    apart = elementwise(
        build, lambda q, n, m, all_: q + n * (m - all_) * (m - all_), (squares_of_part, numbers, mean_of_part, average)
    )
    return rows.keep_dims(_without_last(average)), rows.keep_dims(build.reduce(apart, [at], False, "sum", dtype, dtype))


def _mean_of_parts(build: Builder, rows: LongRows, numbers: Value, mean_of_part: Value) -> Value:
    """The mean of each row, of how many numbers its parts have, and of their means."""
    dtype = rows.value.dtype
    length = constant(rows.length, dtype)
    total = build.reduce(
        elementwise(build, lambda n, m: n * m, (numbers, mean_of_part)), [rows.at], True, "sum", dtype, dtype
    )
    first = build.realize(elementwise(build, lambda s: s / length, (total,)))
    distances = elementwise(build, lambda n, m, all_: n * (m - all_), (numbers, mean_of_part, first))
    error = build.reduce(distances, [rows.at], True, "sum", dtype, dtype)
    return build.realize(elementwise(build, lambda m, s: m + s / length, (first, error)))


def _inside(rows: LongRows, distances: Value) -> Value:
    """Distances from the mean, 0 beyond the end of the last part: numbers are 0 there, but their distance is not."""
    if not rows.length % rows.number:
        return distances
    inside = in_part(rows.at, rows.length, rows.number)
    return replace(distances, body=Masked(inside, distances.body, constant(0, distances.body.dtype)))


def _stored(build: Builder, of_parts: Value) -> Value:
    """One number of each part, stored by the kernel of the parts."""
    return build.realize(_without_last(of_parts))


def _count(rows: LongRows, dtype: torch.dtype) -> Expr:
    """Numbers of a part; the last one may have fewer."""
    length = part_length(rows.length, rows.number)
    last = rows.length - length * (rows.number - 1)
    if last == length:
        return constant(length, dtype)
    is_last = apply("eq", IndexOf(loop_variable(rows.at), torch.int64), constant(rows.number - 1, torch.int64))
    return apply("where", is_last, constant(last, dtype), constant(length, dtype))


def _without_last(value: Value) -> Value:
    """Drop the last dimension, which has one element."""
    size: tuple[Index, ...] = value.size[:-1]
    return reindexed(value, size, [*map(loop_variable, range(len(size))), ONE - 1])
