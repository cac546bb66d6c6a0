"""Which two loops of a pointwise kernel are a tile: one access is adjacent along the first, another along the second.

    y[1024*i0 + i1] = x[512*i1 + i0]      the store is adjacent along i1, the load along i0: tiles of 32 by 32

In a block of 1024 elements in a row, each thread of a warp would load from a row of its own, 32 bytes for 4. In a tile
both accesses find 32 neighbours; Triton turns the values over in shared memory.

In torch: torch/_inductor/tiling_utils.py. Read next: nbcompile/codegen/triton.py
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from nbcompile.codegen.facts import flat
from nbcompile.ir.expr import Load, walk
from nbcompile.ir.index import ONE, Index, Symbol, constant, stride_along
from nbcompile.ir.kernel import Kernel, Loop, Nest, Store, Update

SIDE = 32
LEAST = 8
"""A shorter loop makes no tile."""


def find(kernel: Kernel) -> tuple[Loop, Loop] | None:
    """The loops along the columns and along the rows of the tile; None where there is none."""
    parts = list(flat(kernel.body))
    if any(isinstance(part, (Nest, Update)) for part in parts) or len(kernel.loops) < 2:
        return None
    stores = [part for part in parts if isinstance(part, Store)]
    if not stores or not all(any(isinstance(node, Load) for node in walk(part.value)) for part in stores):
        return None
    along = Counter(filter(None, (_adjacent(kernel, part.offset) for part in stores)))
    if not along:
        return None
    columns = along.most_common(1)[0][0]
    # What does not move along the columns is small, and read once for all of a row.
    moving = (each for each in _loaded(parts) if columns in each.free_symbols)
    across = Counter(filter(None, (_adjacent(kernel, each) for each in moving)))
    others = [variable for variable, _ in across.most_common() if variable != columns]
    loops = {loop.variable: loop for loop in kernel.loops}
    chosen = (loops[columns], loops[others[0]]) if others else None
    return chosen if chosen and all((constant(loop.size) or 0) >= LEAST for loop in chosen) else None


def _loaded(parts: Sequence[Any]) -> Iterator[Index]:
    for part in parts:
        for node in walk(part.value):
            if isinstance(node, Load) and not node.gathers:
                yield node.index[0]


def _adjacent(kernel: Kernel, offset: Index) -> Symbol | None:
    """The loop variable along which an access finds its neighbours."""
    return next((loop.variable for loop in kernel.loops if stride_along(offset, loop.variable) == ONE), None)
