"""Strides of index expressions: how far an access moves in memory as one loop variable advances.

They decide which loop runs over SIMD lanes, and whether its loads are contiguous, gathers or broadcasts.

    stride_along(8*i0 + i1, i1)     1: contiguous
    stride_along(8*i0 + i1, i0)     8: strided
    stride_along(i1 // 4, i1)       None: no constant

In torch: torch/_inductor/sizevars.py (``stride_vars``). Read next: nbcompile/ir/kernel.py
"""

from __future__ import annotations

import functools
import math

import sympy

from nbcompile.ir.index import ZERO, FloorDiv, Index, Mod, Symbol, constant


@functools.lru_cache(maxsize=16384)
def stride_along(offset: Index, variable: Symbol) -> Index | None:
    """The stride of an offset along a variable: its increase per iteration; None where it is not constant.

    ``8*i0 + i1`` along ``i1`` is 1, along ``i0`` is 8, along ``i2`` is 0;
    ``i0 // 8`` along ``i0`` is None.
    """
    total: Index = ZERO
    for term in sympy.Add.make_args(offset):
        if variable not in term.free_symbols:
            continue
        if term == variable:
            total = total + 1
            continue
        factors = [factor for factor in sympy.Mul.make_args(term) if factor != variable]
        if len(factors) == len(sympy.Mul.make_args(term)):
            # The variable is no factor of the term: it is in a sum inside a product, or the term is not linear.
            expanded = sympy.expand(term)
            step = stride_along(expanded, variable) if expanded != term else None
        else:
            step = sympy.Mul(*factors)
        if step is None or variable in step.free_symbols:
            return None
        total = total + step
    return total


@functools.lru_cache(maxsize=4096)
def max_slope(offset: Index, variable: Symbol) -> int | None:
    """The largest increase of an offset per iteration of a variable; None if it is unknown.

    ``8*i0 + i1 // 2`` along ``i1`` is 1, and so are ``max(i1 - 1, 0)`` and ``(i1 + 3) % 8``, which also falls.
    """
    if variable not in offset.free_symbols:
        return 0
    if offset == variable:
        return 1
    # A bound, by cases of the outermost function: the operands' bounds first.
    parts = [max_slope(each, variable) for each in offset.args]
    known = [each for each in parts if each is not None]
    if len(known) < len(parts):
        return None
    match type(offset).__name__:
        case "Add":
            return sum(known)
        case "Max" | "Min":
            return max(known)
        case "Mul" if len(known) == 2 and isinstance(offset.args[0], sympy.Integer):
            factor = int(offset.args[0])
            # A slope bounds only rises: a Mod falls by up to d - 1, and a negative factor turns the fall into a rise.
            return abs(factor) * known[1] if factor > 0 or not offset.has(Mod) else None
        case "FloorDiv" if isinstance(offset.args[1], sympy.Integer):
            divisor = int(offset.args[1])
            return -(-known[0] // abs(divisor)) if divisor > 0 or not offset.has(Mod) else None
        case "Mod" if offset.args[1].is_positive:
            step = stride_along(offset.args[0], variable)
            return known[0] if step is not None and step.is_nonnegative else None
    return None


@functools.lru_cache(maxsize=4096)
def piecewise_stride(offset: Index, variable: Symbol) -> tuple[int, int] | None:
    """The stride of a piecewise linear offset, and the length of its pieces; a length of 0 means one piece.

    ``64*(i1 // 16) + i1 % 16`` along ``i1`` is (1, 16):

        i1        0 1 ... 15   16 17 ... 31   32 ...
        offset    0 1 ... 15   64 65 ... 79   128 ...
    """
    if variable not in offset.free_symbols:
        return 0, 0
    if offset == variable:
        return 1, 0
    match type(offset).__name__:
        case "Add":
            parts = [piecewise_stride(term, variable) for term in offset.args]
            known = [part for part in parts if part is not None]
            if len(known) == len(parts):
                # A sum is linear where all its terms are, so its pieces have a common divisor of the lengths. gcd(0, n)
                # is n: a term of one piece does not limit the others.
                return sum(step for step, _ in known), math.gcd(*(length for _, length in known))
        case "Mul" if len(offset.args) == 2 and isinstance(offset.args[0], sympy.Integer):
            part = piecewise_stride(offset.args[1], variable)
            return None if part is None else (int(offset.args[0]) * part[0], part[1])
        case "FloorDiv" | "Mod" if isinstance(offset.args[1], sympy.Integer) and offset.args[1] > 0:
            whole, divisor = offset.args
            # (i + c) // d is constant, and (i + c) % d rises by 1, between multiples of d: at i = -c, d - c, 2d - c ...
            # A piece may begin only at a multiple of its length, hence gcd(d, c).
            part, rest = piecewise_stride(whole, variable), constant(whole - variable)
            if part is not None and part[0] == 0:
                return part
            if rest is not None:
                return int(isinstance(offset, Mod)), math.gcd(int(divisor), rest)
    return None


def repeat_count(offset: Index, variable: Symbol) -> int | None:
    """Number of consecutive values of a variable with the same offset: ``8*i0 + i1 // 2`` along ``i1`` is 2."""
    terms = [term for term in sympy.Add.make_args(offset) if variable in term.free_symbols]
    match terms:
        case [FloorDiv(args=(top, sympy.Integer() as times))] if top == variable:
            return int(times)
    return None
