"""Tiles of pointwise Triton kernels: two loops, with accesses that are contiguous along one or the other.

    y[1024*i0 + i1] = x[512*i1 + i0]      the store is adjacent along i1, the load along i0: tiles of 32 by 32

With a linear block of 1024 elements, the loads of a warp are not coalesced: each thread reads 32 bytes for 4. In a tile
both accesses are coalesced; Triton transposes the values in shared memory.

In torch: torch/_inductor/tiling_utils.py. Read next: nbcompile/codegen/triton.py
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from nbcompile.codegen.kernel_analysis import flatten_statements
from nbcompile.codegen.machine_model import MIN_TRITON_TILE
from nbcompile.ir.expr import Load
from nbcompile.ir.index import ONE, Index, Symbol, constant
from nbcompile.ir.kernel import Inner, Kernel, Loop, Nest, Store, Update
from nbcompile.ir.strides import stride_along
from nbcompile.ir.traversal import walk


def find(kernel: Kernel) -> tuple[Loop, Loop] | None:
    """Choose the loops of the tile's columns and rows; None if no tile helps."""
    parts = list(flatten_statements(kernel.body))
    stores = _copying_stores(parts) if len(kernel.loops) >= 2 else []
    # The loop along which most stores are contiguous is the tile's columns, that of most other
    # loads its rows.
    along = Counter(filter(None, (_adjacent(kernel, part.offset) for part in stores)))
    if not along:
        return None
    columns = along.most_common(1)[0][0]
    # Loads that do not depend on the column are small, and are loaded once per row.
    moving = (offset for offset in _loaded(parts) if columns in offset.free_symbols)
    across = Counter(filter(None, (_adjacent(kernel, offset) for offset in moving)))
    others = [variable for variable, _ in across.most_common() if variable != columns]
    loops = {loop.variable: loop for loop in kernel.loops}
    chosen = (loops[columns], loops[others[0]]) if others else None
    return chosen if chosen and all(_is_long(loop.size) for loop in chosen) else None


def _copying_stores(parts: Sequence[Inner | Nest]) -> list[Store]:
    """The stores of a kernel without inner loops or updates whose values are all loaded; else none."""
    stores = [part for part in parts if isinstance(part, Store)]
    if any(isinstance(part, (Nest, Update)) for part in parts):
        return []
    return stores if all(any(isinstance(node, Load) for node in walk(store.value)) for store in stores) else []


def _is_long(size: Index) -> bool:
    """Return whether a loop fills a tile, which is assumed for a dynamic length."""
    known = constant(size)
    return known is None or known >= MIN_TRITON_TILE


def _loaded(parts: Sequence[Any]) -> Iterator[Index]:
    for part in parts:
        for node in walk(part.value):
            if isinstance(node, Load) and not node.gathers:
                yield node.index[0]


def _adjacent(kernel: Kernel, offset: Index) -> Symbol | None:
    """Loop variable along which an access is contiguous."""
    return next((loop.variable for loop in kernel.loops if stride_along(offset, loop.variable) == ONE), None)
