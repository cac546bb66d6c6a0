"""Whether every index of a kernel fits in 32 bits, which a GPU computes with in half the instructions.

    x[1000*i0 + i1], i0 < 512, i1 < 1000        999 + 1000*511 < 2**31: 32 bits
    the same, i0 < s0                           s0 may be anything: 64 bits

Bounds hold for what comes up on the way, too: of a sum all that is added, of a remainder what is divided. Loop
variables go past their ends by less than a block, where a mask forbids the access.

In torch: torch/_inductor/codegen/simd.py (can_use_32bit_indexing). Read next:
nbcompile/codegen/triton.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import sympy

from nbcompile.codegen.facts import flat
from nbcompile.ir.expr import IndexOf, walk
from nbcompile.ir.index import Index, Symbol, constant
from nbcompile.ir.kernel import Accumulate, Carry, Kernel, Nest, Store, Update

LARGEST = 2**31 - 1
BEYOND = 1 << 14
"""A loop variable goes past its end by less: the longest block."""


def fits_in_32_bits(kernel: Kernel) -> bool:
    """Whether nothing that an index of the kernel is computed of can be larger."""
    ends: dict[Symbol, int | None] = {loop.variable: constant(loop.size) for loop in kernel.loops}
    for part in flat(kernel.body):
        if isinstance(part, Nest):
            ends |= {loop.variable: constant(loop.size) for loop in part.loops}
    elements = 1
    for loop in kernel.loops:
        elements *= constant(loop.size) or LARGEST
    within = all(end is not None for end in ends.values()) and elements + BEYOND <= LARGEST
    known = {symbol: end + BEYOND for symbol, end in ends.items() if end is not None}
    return within and all(_bound(index, {**known, **gathers}) <= LARGEST for index, gathers in _indices(kernel))


def _indices(kernel: Kernel) -> Iterator[tuple[Index, Mapping[Symbol, int]]]:
    """Every index, with the ends of the symbols in it that stand for what is read from memory."""
    for part in flat(kernel.body):
        if isinstance(part, Nest):
            continue
        if isinstance(part, Store):
            yield part.offset, {}
        if isinstance(part, (Accumulate, Carry)):
            yield part.place, {}
        for node in (*walk(part.value), *(walk(part.place) if isinstance(part, Update) else ())):
            gathers = getattr(node, "gathers", ())
            ends = {each.symbol: constant(each.size) or LARGEST for each in gathers}
            for index in (node.index,) if isinstance(node, IndexOf) else getattr(node, "index", ()):
                yield index, ends


def _bound(expression: sympy.Basic, ends: Mapping[Symbol, int]) -> int:
    """No part of an expression is larger; ``LARGEST + 1`` where that is not known."""
    if isinstance(expression, sympy.Integer):
        return abs(int(expression))
    if isinstance(expression, sympy.Symbol):
        return ends.get(expression, LARGEST + 1)
    parts = [_bound(each, ends) for each in expression.args]
    if any(each > LARGEST for each in parts):
        return LARGEST + 1
    match type(expression).__name__:
        case "Add":
            return sum(parts)
        case "Mul":
            product = 1
            for each in parts:
                product *= max(each, 1)
            return product
        case "FloorDiv" | "Mod" | "PythonMod" | "ModularIndexing" | "CleanDiv" | "Min" | "Max":
            return max(parts)
    return LARGEST + 1
