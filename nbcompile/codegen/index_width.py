"""Width of index arithmetic: int32 if every index of a kernel fits, which takes half the instructions on a GPU.

    x[1000*i0 + i1], i0 < 512, i1 < 1000        999 + 1000*511 < 2**31: 32 bits
    the same, i0 < s0                           s0 may be anything: 64 bits

Bounds hold for intermediate results too: the terms of a sum, the dividend of a remainder. Loop variables exceed their
extent by less than a block; a mask forbids those accesses.

In torch: torch/_inductor/codegen/simd.py (can_use_32bit_indexing). Read next:
nbcompile/codegen/triton.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import sympy

from nbcompile.codegen.kernel_analysis import flatten_statements
from nbcompile.ir.expr import IndexOf
from nbcompile.ir.index import Index, Symbol, constant
from nbcompile.ir.kernel import Accumulate, Carry, Kernel, Nest, Store, Update
from nbcompile.ir.traversal import walk

LARGEST = 2**31 - 1
BEYOND = 1 << 14
"""Iterations: bound on how far a loop variable exceeds its extent (the longest block)."""


def fits_in_32_bits(kernel: Kernel) -> bool:
    """Return whether all indices of a kernel, and their intermediate results, fit in int32."""
    ends: dict[Symbol, int | None] = {loop.variable: constant(loop.size) for loop in kernel.loops}
    for part in flatten_statements(kernel.body):
        if isinstance(part, Nest):
            ends |= {loop.variable: constant(loop.size) for loop in part.loops}
    # The program id times the block length counts elements of all loops: that product has to fit, too.
    elements = 1
    for loop in kernel.loops:
        elements *= constant(loop.size) or LARGEST
    within = all(end is not None for end in ends.values()) and elements + BEYOND <= LARGEST
    known = {symbol: end + BEYOND for symbol, end in ends.items() if end is not None}
    return within and all(_bound(index, {**known, **gathers}) <= LARGEST for index, gathers in _indices(kernel))


def _indices(kernel: Kernel) -> Iterator[tuple[Index, Mapping[Symbol, int]]]:
    """Iterate over the indices, with the bounds of those symbols that are loaded from memory."""
    for part in flatten_statements(kernel.body):
        if isinstance(part, Nest):
            continue
        if isinstance(part, Store):
            yield part.offset, {}
        if isinstance(part, (Accumulate, Carry)):
            yield part.index, {}
        for node in (*walk(part.value), *(walk(part.offset) if isinstance(part, Update) else ())):
            gathers = getattr(node, "gathers", ())
            ends = {gather.symbol: constant(gather.size) or LARGEST for gather in gathers}
            for index in (node.index,) if isinstance(node, IndexOf) else getattr(node, "index", ()):
                yield index, ends


def _bound(expression: sympy.Basic, ends: Mapping[Symbol, int]) -> int:
    """Upper bound of the absolute value of an expression and its parts; ``LARGEST + 1`` if unknown."""
    if isinstance(expression, sympy.Integer):
        return abs(int(expression))
    if isinstance(expression, sympy.Symbol):
        return ends.get(expression, LARGEST + 1)
    parts = [_bound(arg, ends) for arg in expression.args]
    if any(part > LARGEST for part in parts):
        return LARGEST + 1
    match type(expression).__name__:
        case "Add":
            return sum(parts)
        case "Mul":
            product = 1
            for part in parts:
                # A factor of 0 must not hide the size of the product of the others, which may be computed first.
                product *= max(part, 1)
            return product
        # A quotient is no larger than its dividend, and a remainder no larger than its divisor.
        case "FloorDiv" | "Mod" | "PythonMod" | "ModularIndexing" | "CleanDiv" | "Min" | "Max":
            return max(parts)
    return LARGEST + 1
