"""Split reductions: a reduction with too few GPU programs is done in two steps, the parts and then the partial results.

    x.sum() of 1 Mi numbers      buf0[i0] = sum over r0 < 2048 of x[2048*i0 + r0]      512 programs at once
                                 buf1     = sum over r0 < 512 of buf0[r0]

A program runs on one of more than a hundred multiprocessors: a program that iterates over a whole tensor leaves the
others idle, and waits for memory in every iteration. On a CPU threads share the loop, so no reduction is split there.

In torch: torch/_inductor/ir.py (Reduction.num_splits). Read next: nbcompile/lowering/builder.py
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from nbcompile.ir.buffer import Pointwise
from nbcompile.ir.expr import Expr, IndexOf, Load, Masked, apply, cast, compute_dtype, constant
from nbcompile.ir.index import (
    ONE,
    ZERO,
    Index,
    Symbol,
    constant as known,
    index,
    loop_variable,
    loop_variables,
    product,
    simplify,
    unflatten,
)
from nbcompile.ir.kernel import MAX_REGISTER_ROW
from nbcompile.ir.strides import stride_along
from nbcompile.ir.traversal import loads
from nbcompile.lowering.value import Value, reindexed

if TYPE_CHECKING:
    from nbcompile.lowering.builder import Builder

MAX_PROGRAMS = 2048
"""Number of programs that about 130 multiprocessors run at once."""
ENOUGH_PROGRAMS = 264
"""Number of programs, two per multiprocessor, from which on splitting gains nothing."""
COLUMNS_PER_PROGRAM = 32
"""Columns of one program in an outer reduction (codegen/triton.py)."""
MIN_ROW, MIN_COLUMN = 2048, 64
"""Elements of the shortest parts. A part of so many columns' elements is one tile without a loop."""
MANY_ELEMENTS, MIN_COLUMN_OF_MANY = 1 << 21, 128
"""Elements: from the first number on memory takes longer than the waits of a program. A partial result of a column
moves its own sector, which is few bytes compared with a part of the second length."""
FEW_PARTS = 64
"""Parts of columns that one tile without a loop adds up (codegen/machine_model.py, MOST_STEPS)."""
SHORT_COLUMN = 128
"""Elements. A program reduces a shorter column in less time than a second launch takes."""
MIN_FUSED_ROW, FEWEST_ROWS, MOST_ROWS = 256, 32, 8192
"""Elements, rows, rows: bounds within which the partial results of a reduction of everything are those of its rows."""
WHOLE_LINE = 32
"""Elements: the length of parts is a multiple of it where no number of parts divides the length."""
ASSOCIATIVE_KINDS = ("sum", "prod", "max", "min", "any", "all")
"""Reductions whose partial results can be combined in any order."""
INDEX_KINDS = {"argmax": "max", "argmin": "min"}
"""Reductions to an index, and the reductions to the value that it has."""


def split_count(results: Sequence[Index], reduced: Sequence[Index], kind: str, *, along_columns: bool) -> int:
    """Number of parts of equal length (the last may be shorter) to split a reduction into; 1: do not split.

    Args:
        results: Sizes of the result.
        reduced: Sizes of the reduced dimensions.
        kind: The kind of reduction.
        along_columns: Whether it is an outer reduction: neighbours in memory belong to different results.
    """
    result_count, length = known(product(results)), known(product(reduced))
    splits = kind in ASSOCIATIVE_KINDS or kind in INDEX_KINDS
    if not splits or result_count is None or length is None or not result_count:
        return 1
    # A program has one row, or some adjacent columns.
    programs = -(-result_count // COLUMNS_PER_PROGRAM) if along_columns else result_count
    if programs >= ENOUGH_PROGRAMS or length < (SHORT_COLUMN if along_columns else MAX_REGISTER_ROW + 1):
        return 1
    # As many parts as can run in parallel; but each part must be long enough for a program of its own.
    column = MIN_COLUMN if result_count * length < MANY_ELEMENTS else MIN_COLUMN_OF_MANY
    shortest = column if along_columns else MIN_ROW
    most = min(MAX_PROGRAMS // programs, length // shortest)
    # Parts of equal length need no mask. Down to a quarter of the maximal number, idle multiprocessors cost less than a
    # mask.
    dividing = (parts for parts in range(most, max(most // 4, 1), -1) if length % parts == 0)
    return next(dividing, -(-length // _rounded_length(length, most)))


@dataclass(frozen=True, slots=True)
class ReductionOperand:
    """A value with the dimensions that a reduction of it keeps, and those that it reduces."""

    value: Value
    kept_dims: tuple[int, ...]
    reduced_dims: tuple[int, ...]


def number_of_parts(build: Builder, operand: ReductionOperand, kind: str) -> tuple[int, bool]:
    """Number of parts to reduce a value in, 1 on a CPU; and whether these are parts of rows, side by side."""
    value, reduced_dims = operand.value, operand.reduced_dims
    if value.device.type != "cuda" or not reduced_dims:
        return 1, False
    along_columns = _reads_along_columns(build, operand)
    results, reduced = ([value.size[at] for at in dims] for dims in (operand.kept_dims, reduced_dims))
    number = split_count(results, reduced, kind, along_columns=along_columns)
    if number == 1:
        return 1, False
    fused = row_count(build, value, reduced_dims, kind)
    return fused or number, not along_columns and not fused


def _reads_along_columns(build: Builder, operand: ReductionOperand) -> bool:
    """Return whether most loads are contiguous along a kept dimension: an outer reduction.

    A load that does not depend on the reduced dimensions does not count: it is small, and executed once.
    """
    # Of x[128*i0 + r0] neighbours are reduced (rows); of x[i0 + 128*r0] they are kept (columns).
    columns = rows = 0
    for access in loads(operand.value.body):
        offset = simplify(build.tensors[access.buffer].layout.at(access.index), operand.value.ranges())
        if all(loop_variable(at) not in offset.free_symbols for at in operand.reduced_dims):
            continue
        rows += any(stride_along(offset, loop_variable(at)) == ONE for at in operand.reduced_dims)
        columns += any(stride_along(offset, loop_variable(at)) == ONE for at in operand.kept_dims)
    return columns > rows


def row_count(build: Builder, value: Value, reduced_dims: Sequence[int], kind: str) -> int:
    """Number of rows, if a full reduction reads a value that depends on a reduction of each row; otherwise 0.

    ((x - mean) ** 2).sum(), mean of each row      a partial sum for each row: computed in the kernel of the row
    """
    sizes = [known(extent) for extent in value.size]
    if kind not in ASSOCIATIVE_KINDS or len(reduced_dims) < value.ndim or None in sizes:
        return 0
    wide = {loop_variable(at): extent or 0 for at, extent in enumerate(sizes) if extent != 1}
    counts = (_rows_with(load, wide) for load in _loads_of_loop(build, value.body, loop_variables(value.ndim)))
    return next(filter(None, counts), 0)


def _rows_with(load: Load, wide: Mapping[Symbol, int]) -> int:
    """Number of rows if the load has one element for each row and rows are suitable parts; otherwise 0."""
    used = {symbol for position in load.index for symbol in position.free_symbols}
    own = [variable for variable in wide if variable in used]
    count = math.prod(wide[variable] for variable in own)
    length = math.prod(wide.values()) // max(count, 1)
    fits = MIN_FUSED_ROW <= length <= MAX_REGISTER_ROW and FEWEST_ROWS <= count <= MOST_ROWS
    # Only leading dimensions, so that all others together are one row.
    return count if fits and own == list(wide)[: len(own)] else 0


def _loads_of_loop(build: Builder, body: Expr, variables: tuple[Index, ...]) -> Iterator[Load]:
    """Iterate over the loads of a body, and over those of buffers that are computed by the same loops."""
    for load in loads(body):
        yield load
        producer = build.tensors[load.buffer]
        if isinstance(producer, Pointwise) and load.index == variables and not load.gathers:
            yield from _loads_of_loop(build, producer.body, variables)


def _rounded_length(length: int, parts: int) -> int:
    return -(-length // (parts * WHOLE_LINE)) * WHOLE_LINE


def in_parts(
    build: Builder, operand: ReductionOperand, number: int, kind: str, dtype: torch.dtype, accumulate: torch.dtype
) -> Value:
    """Reduce in two steps: the parts of the reduced dimensions, then the partial results.

    sum of x[4096]       partial[p] = sum over r < 64 of x[64*p + r]      p < 64
                         result     = sum over p < 64 of partial[p]
    """
    split = parts(operand, number, kind, accumulate)
    at = len(operand.kept_dims)
    if kind in INDEX_KINDS:
        return _first_index(build, split, at, kind, dtype, accumulate)
    if number <= FEW_PARTS and _reads_along_columns(build, operand):
        split, at = _parts_first(split), 0
    partial = build.reduce(split, [split.ndim - 1], False, kind, accumulate, accumulate)
    return build.reduce(partial, [at], False, kind, dtype, accumulate)


def _parts_first(split: Value) -> Value:
    """Move the parts to the first dimension: partial results of adjacent columns are then adjacent, too."""
    last = split.ndim - 1
    kept = [loop_variable(at) for at in range(1, last)]
    size = (split.size[last - 1], *split.size[: last - 1], split.size[last])
    return reindexed(split, size, [*kept, loop_variable(0), loop_variable(last)])


def parts(operand: ReductionOperand, number: int, kind: str, dtype: torch.dtype) -> Value:
    """View of a value with the parts, and what is in each, as its last two dimensions."""
    value, kept_dims, reduced_dims = operand.value, operand.kept_dims, operand.reduced_dims
    sizes = [value.size[at] for at in reduced_dims]
    whole = known(product(sizes)) or 0
    per_part = part_length(whole, number)
    length = index(per_part)
    part, inside = loop_variable(len(kept_dims)), loop_variable(len(kept_dims) + 1)
    # The reduced dimensions in row-major order are one index, which is divided into part and index within it.
    coordinates = unflatten(length * part + inside, sizes, {part: index(number), inside: length})
    position: list[Index] = [ZERO] * value.ndim
    for to, at in enumerate(kept_dims):
        position[at] = loop_variable(to)
    for at, coordinate in zip(reduced_dims, coordinates, strict=True):
        position[at] = coordinate
    size = tuple(value.size[at] for at in kept_dims)
    split = reindexed(value, (*size, index(number), length), position)
    if per_part * number == whole:
        return split
    # The index of such a value is never chosen either: at best it equals an element, and the
    # elements come before it, as the last part has one at least.
    # The last part is longer than what is left: beyond the end it reads nothing, and gets a value
    # that changes no result.
    return replace(
        split, body=Masked(in_part(len(kept_dims), whole, number), split.body, identity(kind, split.body.dtype))
    )


def part_length(whole: int, number: int) -> int:
    """Elements of each part; the last one has those that are left."""
    return whole // number if whole % number == 0 else _rounded_length(whole, number)


def in_part(at: int, whole: int, number: int) -> Expr:
    """Condition of an element that is there, over the loops of the parts, ``at``, and of what is in one."""
    position = index(part_length(whole, number)) * loop_variable(at) + loop_variable(at + 1)
    return apply("lt", IndexOf(position, torch.int64), constant(whole, torch.int64))


def identity(kind: str, dtype: torch.dtype) -> Expr:
    """The value that changes no result."""
    if kind in ("sum", "any"):
        return constant(0, dtype)
    if kind in ("prod", "all"):
        return constant(1, dtype)
    lowest = kind in ("max", "argmax")
    if dtype.is_floating_point:
        return constant(float("-inf") if lowest else float("inf"), dtype)
    if dtype == torch.bool:
        return constant(not lowest, dtype)
    limits = torch.iinfo(dtype)
    return constant(limits.min if lowest else limits.max, dtype)


def _first_index(
    build: Builder, split: Value, at: int, kind: str, dtype: torch.dtype, accumulate: torch.dtype
) -> Value:
    """The first index of the best element: that in the first part whose best element equals the best of all."""
    #     argmax of    3 9 1 | 9 2 9 | 4 0 9      three parts of three, and the best of all is 9
    #     best of part     9       9       9      every part has it
    #     its index        1       0       2
    #     candidate        1       3       8      3 * part + index; the least is the first: 1
    parts, length = split.size[at], split.size[at + 1]
    better = INDEX_KINDS[kind]
    best_of_part = build.reduce(split, [at + 1], False, better, accumulate, accumulate)
    indices = build.reduce(split, [at + 1], False, kind, torch.int64, accumulate)
    best = build.reduce(best_of_part, [at], True, better, accumulate, accumulate)
    size = best_of_part.size
    everywhere = reindexed(best, size, [*map(loop_variable, range(at)), ZERO])
    mine, of_all = best_of_part.body, everywhere.body
    is_best = apply("eq", mine, of_all)
    if accumulate.is_floating_point:
        # nan is the extremum of any row that has one, but compares equal to nothing.
        is_best = apply("logical_or", is_best, apply("isnan", mine))
    candidate = apply("add", indices.body, IndexOf(loop_variable(at) * length, torch.int64))
    none = constant(torch.iinfo(torch.int64).max, torch.int64)
    candidates = replace(indices, body=apply("where", is_best, candidate, none), size=(*size[:at], parts))
    return build.reduce(candidates, [at], False, "min", dtype, torch.int64)


def of_one_element(body: Expr, kind: str, dtype: torch.dtype) -> Expr:
    """The reduction of one element: the element itself, or its index, which is 0."""
    if kind.startswith("arg"):
        return constant(0, dtype)
    number = cast(body, compute_dtype(dtype))
    # A sum starts with 0: that of only -0.0 is 0.0.
    return number + 0.0 if kind == "sum" and dtype.is_floating_point else number
