"""A reduction that too few programs of a GPU would do, in two steps: parts of it, then the parts together.

    x.sum() of 1 Mi numbers      buf0[i0] = sum over r0 < 2048 of x[2048*i0 + r0]      512 programs at once
                                 buf1     = sum over r0 < 512 of buf0[r0]

A program runs on one of more than a hundred multiprocessors: one that goes through all of a tensor leaves the others
idle, and waits for memory in each round. On a CPU threads share the loop, so nothing of this is done there.

In torch: torch/_inductor/ir.py (Reduction.num_splits). Read next: nbcompile/lowering/builder.py
"""

from __future__ import annotations

from collections.abc import Sequence

from nbcompile.ir.index import Index, constant, product
from nbcompile.ir.kernel import MAX_REGISTER_ROW

PROGRAMS = 2048
"""As many as some hundred multiprocessors hold at once."""
ENOUGH = 264
"""With two programs a multiprocessor nothing is to be won."""
COLUMNS = 128
"""Columns of one program, where a reduction goes along the columns (codegen/triton.py)."""
LEAST_ROW, LEAST_COLUMN = 2048, 16
"""The shortest parts."""
SHORT_COLUMN = 128
"""A program goes down a shorter one in the time of two more launches."""
KINDS = ("sum", "prod", "max", "min", "any", "all")
"""What can be combined in any order."""


def count(results: Sequence[Index], reduced: Sequence[Index], kind: str, *, along_columns: bool) -> int:
    """In how many parts of equal length a reduction is done; 1: as a whole.

    Args:
        results: The size of what it gives.
        reduced: The dimensions that it removes.
        kind: How values are combined.
        along_columns: Whether neighbours in memory belong to different results.
    """
    given, length = constant(product(results)), constant(product(reduced))
    if kind not in KINDS or given is None or length is None or not given:
        return 1
    programs = -(-given // COLUMNS) if along_columns else given
    if programs >= ENOUGH or length < (SHORT_COLUMN if along_columns else MAX_REGISTER_ROW + 1):
        return 1
    least = LEAST_COLUMN if along_columns else LEAST_ROW
    wanted = min(PROGRAMS // programs, length // least)
    return next((parts for parts in range(wanted, max(wanted // 4, 1), -1) if length % parts == 0), 1)
