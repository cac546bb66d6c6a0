"""Split reductions: a reduction with too few GPU programs is done in two steps, the parts and then the partial results.

    x.sum() of 1 Mi numbers      buf0[i0] = sum over r0 < 2048 of x[2048*i0 + r0]      512 programs at once
                                 buf1     = sum over r0 < 512 of buf0[r0]

A program runs on one of more than a hundred multiprocessors: a program that iterates over a whole tensor leaves the
others idle, and waits for memory in every iteration. On a CPU threads share the loop, so no reduction is split there.

In torch: torch/_inductor/ir.py (Reduction.num_splits). Read next: nbcompile/lowering/builder.py
"""

from __future__ import annotations

from collections.abc import Sequence

from nbcompile.ir.index import Index, constant, product
from nbcompile.ir.kernel import MAX_REGISTER_ROW

MAX_PROGRAMS = 2048
"""Number of programs that about 130 multiprocessors run at once."""
ENOUGH_PROGRAMS = 264
"""Number of programs, two per multiprocessor, from which on splitting gains nothing."""
COLUMNS_PER_PROGRAM = 32
"""Columns of one program in an outer reduction (codegen/triton.py)."""
MIN_ROW, MIN_COLUMN = 2048, 16
"""Elements of the shortest parts."""
SHORT_COLUMN = 128
"""Elements. A program reduces a shorter column in less time than a second launch takes."""
ASSOCIATIVE_KINDS = ("sum", "prod", "max", "min", "any", "all")
"""Reductions whose partial results can be combined in any order."""


def split_count(results: Sequence[Index], reduced: Sequence[Index], kind: str, *, along_columns: bool) -> int:
    """Number of parts of equal length to split a reduction into; 1: do not split.

    Args:
        results: Sizes of the result.
        reduced: Sizes of the reduced dimensions.
        kind: The kind of reduction.
        along_columns: Whether it is an outer reduction: neighbours in memory belong to different results.
    """
    result_count, length = constant(product(results)), constant(product(reduced))
    if kind not in ASSOCIATIVE_KINDS or result_count is None or length is None or not result_count:
        return 1
    programs = -(-result_count // COLUMNS_PER_PROGRAM) if along_columns else result_count
    if programs >= ENOUGH_PROGRAMS or length < (SHORT_COLUMN if along_columns else MAX_REGISTER_ROW + 1):
        return 1
    shortest = MIN_COLUMN if along_columns else MIN_ROW
    most = min(MAX_PROGRAMS // programs, length // shortest)
    return next((parts for parts in range(most, max(most // 4, 1), -1) if length % parts == 0), 1)
