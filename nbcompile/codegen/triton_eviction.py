"""Eviction hints of Triton loads: which data a GPU's caches should keep.

    y[64*i0 + i1] = x[64*i0 + i1] + b[i1]        b is loaded by every row: evict_last
    s[i0] = sum of x[1000*i0 + r0]               x is loaded once, by a program that continues: evict_first
    a long row: max of x, then exp(x - max)      the first loop leaves x to the second: evict_last, then evict_first

A kernel that loads each element once, and stores one for each, has no hint: no other data competes for the cache.
Kernels for the CPU are not launched, and have none.

In torch: torch/_inductor/codegen/triton.py (TritonKernel.load). Read next: nbcompile/codegen/triton_values.py
"""

from __future__ import annotations

from nbcompile.ir.expr import Load
from nbcompile.ir.index import ONE, Symbol, is_one
from nbcompile.ir.kernel import Kernel, Nest
from nbcompile.ir.strides import stride_along

LAST, FIRST = ", eviction_policy='evict_last'", ", eviction_policy='evict_first'"


def hint(kernel: Kernel, load: Load, read_later: frozenset[str]) -> str:
    """The argument of ``tl.load`` with the hint; "" if there is none.

    Args:
        kernel: The kernel of the load.
        load: The load of all elements of a block.
        read_later: Buffers that a later loop of the kernel loads once more.
    """
    # A product's factors are copied to shared memory while others are multiplied.
    if kernel.device.type != "cuda" or kernel.product is not None or load.gathers or load.buffer in kernel.writes:
        return ""
    outer, inner = _loops(kernel)
    #     b[i1] in loops i0, i1      i0 is not used: every row loads it again       keep
    #     x[1000*i0 + r0]            all are used, r0 is adjacent                   do not keep
    #     x[2*i0 + 128*r0]           none is adjacent: lines are shared             keep
    used = load.index[0].free_symbols & (outer | inner)
    is_adjacent = any(stride_along(load.index[0], symbol) == ONE for symbol in used)
    # Other programs, or other rows of this one, load it too, or load neighbouring elements.
    if outer - used or (used and not is_adjacent) or load.buffer in read_later:
        return LAST
    return FIRST if inner & used else ""


def _loops(kernel: Kernel) -> tuple[frozenset[Symbol], frozenset[Symbol]]:
    """Variables of the outer loops that have several iterations, and of those of the nests."""
    nests = (part for part in kernel.body if isinstance(part, Nest))
    outer = frozenset(loop.variable for loop in kernel.loops if not is_one(loop.size))
    return outer, frozenset(loop.variable for nest in nests for loop in nest.loops)
