"""Index expressions: integer formulas over loop variables and sizes that give the position of an element.

Every size, stride, offset and index of the IR is a SymPy expression, also when
it is a plain number, so that symbolic shapes need no second code path.

    x.t()[1:]          read at (i0, i1)   ->  x at (i1, i0 + 1)
    x of stride (8, 1) read at (i0, i1)   ->  memory offset 8*i0 + i1
    x.reshape(4, 6)    of an x of (24,)   ->  x at (6*i0 + i1,)

Loop variables are ``i0, i1, ...`` (one per dimension of a result) and
``r0, r1, ...`` (one per dimension that is reduced away). All are non-negative
integers; sizes such as ``s77`` are ShapeEnv's symbols. Division and remainder
are torch's ``FloorDiv`` and ``Mod``.

In torch: torch/_inductor/sizevars.py. Read next: nbcompile/ir/expr.py
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import sympy
import torch

from nbcompile import torch_internals

_functions: Any = torch_internals.sympy_functions()
FloorDiv: Any = _functions.FloorDiv
Mod: Any = _functions.Mod
Max: Any = _functions.Max
Min: Any = _functions.Min

Index: TypeAlias = sympy.Expr
Symbol: TypeAlias = sympy.Symbol
Ranges: TypeAlias = Mapping[sympy.Symbol, sympy.Expr]
"""Size of each loop variable: ``0 <= variable < size``."""

ZERO: Index = sympy.Integer(0)
ONE: Index = sympy.Integer(1)


@functools.cache
def loop_variable(position: int) -> Symbol:
    """The loop variable of a dimension of a result: ``i0`` of the first, ``i1`` of the second, ..."""
    # The assumptions let SymPy show bounds: i0 + 1 > 0, and 8*i0 + i1 is an integer.
    return sympy.Symbol(f"i{position}", integer=True, nonnegative=True)


@functools.cache
def reduction_variable(position: int) -> Symbol:
    """The loop variable of a reduced dimension: ``r0`` of the first, ..."""
    return sympy.Symbol(f"r{position}", integer=True, nonnegative=True)


@functools.cache
def gather_variable(number: int) -> Symbol:
    """The symbol of an index that is loaded from memory (expr.Gather): ``g0``, ..."""
    return sympy.Symbol(f"g{number}", integer=True, nonnegative=True)


def is_loop_variable(symbol: Symbol) -> bool:
    """Return whether a symbol is a loop variable: no size, and no gathered index."""
    # ShapeEnv's sizes are named s77 and u0, gathered indices g0.
    return symbol.name[0] in "ir" and symbol.name[1:].isdigit()


def loop_variables(count: int) -> tuple[Symbol, ...]:
    """``(i0, i1, ...)``."""
    return tuple(map(loop_variable, range(count)))


def index(value: int | torch.SymInt | sympy.Expr) -> Index:
    """Convert a size (int or SymInt) to an expression."""
    if isinstance(value, sympy.Expr):
        return value
    if isinstance(value, torch.SymInt):
        expression: sympy.Expr = value.node.expr
        return expression
    return sympy.Integer(int(value))


def indices(values: Iterable[int | torch.SymInt | sympy.Expr]) -> tuple[Index, ...]:
    """Convert sizes to expressions."""
    return tuple(map(index, values))


def product(sizes: Iterable[Index]) -> Index:
    """The number of elements of a shape."""
    return sympy.Mul(*sizes)


def constant(expression: Index) -> int | None:
    """The int, if the expression is constant; None if it is symbolic."""
    return int(expression) if isinstance(expression, sympy.Integer) else None


def known_equal(first: Index, second: Index) -> bool:
    """Return whether two sizes are equal for every value of their symbols; False if that is unknown."""
    if first == second:
        return True
    if isinstance(first, sympy.Integer) and isinstance(second, sympy.Integer):
        return False
    return bool(sympy.expand(first - second) == 0)


def is_one(size: Index) -> bool:
    """Return whether a dimension is known to have one element."""
    return bool(size == ONE)


def value_of(expression: Index, values: Mapping[Symbol, int]) -> int:
    """Evaluate an expression, given a value for every symbol."""
    if isinstance(expression, sympy.Integer):
        return int(expression)
    return int(expression.xreplace({symbol: sympy.Integer(value) for symbol, value in values.items()}))


def flatten(position: Sequence[Index], size: Sequence[Index]) -> Index:
    """The linear index of an element in row-major order (the last dimension fastest)."""
    total: Index = ZERO
    for coordinate, extent in zip(position, size, strict=True):
        # Horner's scheme: ((p0 * n1) + p1) * n2 + p2.
        total = total * extent + coordinate
    return sympy.expand(total)


def unflatten(linear_index: Index, size: Sequence[Index], ranges: Ranges) -> tuple[Index, ...]:
    """The position of an element, from its linear index; the inverse of :func:`flatten`."""
    if ZERO in size:
        return (linear_index,) * len(size)  # no element: the index is never computed, and nothing may divide by 0
    position: list[Index] = []
    #     size (4, 6), linear index n        dimension 1: n // 1 % 6        dimension 0: n // 6
    step: Index = ONE
    for at, extent in reversed(list(enumerate(size))):
        if is_one(extent):
            position.append(ZERO)
            continue
        quotient = divide(linear_index, step, ranges)
        # The first dimension needs no remainder: the index is in bounds.
        outermost = all(is_one(each) for each in size[:at])
        position.append(quotient if outermost else remainder(quotient, extent, ranges))
        step = step * extent
    return tuple(reversed(position))


def divide(numerator: Index, divisor: Index, ranges: Ranges) -> Index:
    """Floor division, simplified by the ranges of the variables: ``(8*i0 + i1) // 8 -> i0``."""
    if is_one(divisor):
        return numerator
    if divisor == ZERO:  # an empty dimension: the index is never computed
        return ZERO
    #     (8*i0 + i1) // 8, i1 < 8       whole i0, rest i1, which is below 8: i0
    #     (8*i0 + i1) // 8, i1 < 16      whole i0, rest i1: i0 + i1 // 8
    whole, rest = _split(sympy.expand(numerator), divisor)
    if _is_in_range(rest, divisor, ranges):
        return whole
    # torch's FloorDiv, and not SymPy's floor(a / b): it is exact, and the printers know it.
    quotient: Index = FloorDiv(rest, divisor)
    return whole + quotient


def remainder(numerator: Index, divisor: Index, ranges: Ranges) -> Index:
    """Remainder, simplified by the ranges of the variables: ``(8*i0 + i1) % 8 -> i1``."""
    if is_one(divisor) or divisor == ZERO:  # an empty dimension: the index is never computed
        return ZERO
    _, rest = _split(sympy.expand(numerator), divisor)
    if _is_in_range(rest, divisor, ranges):
        return rest
    modulo: Index = Mod(rest, divisor)
    return modulo


def _split(numerator: Index, divisor: Index) -> tuple[Index, Index]:
    # numerator == divisor * whole + rest, with every term that the divisor divides in whole.
    # Term by term: 8*i0 + 16*i2 + i1 over 8 has the whole part i0 + 2*i2 and the rest i1.
    whole: list[Index] = []
    rest: list[Index] = []
    for term in sympy.Add.make_args(numerator):
        quotient = _exact_quotient(term, divisor)
        (rest if quotient is None else whole).append(term if quotient is None else quotient)
    total, remainder_sum = sympy.Add(*whole), sympy.Add(*rest)
    # Only a non-negative rest makes (whole, rest) the quotient and remainder.
    return (total, remainder_sum) if lower_bound(remainder_sum) is not None else (ZERO, numerator)


def _exact_quotient(term: Index, divisor: Index) -> Index | None:
    """``term / divisor`` if the division is exact, else None."""
    if isinstance(divisor, sympy.Integer):
        number, others = term.as_coeff_Mul()
        if not isinstance(number, sympy.Integer) or number % divisor != 0:
            return None
        return sympy.Mul(number // divisor, others)
    quotient = term / divisor
    _, below = sympy.fraction(quotient)
    return quotient if below == 1 else None


def _is_in_range(expression: Index, bound: Index, ranges: Ranges) -> bool:
    if lower_bound(expression) is None:
        return False
    upper = upper_bound(expression, ranges)
    return upper is not None and known_positive(bound - upper)


def known_positive(expression: Index) -> bool:
    """Return whether an expression is at least 1 for every value of its symbols; False if that is unknown."""
    if isinstance(expression, sympy.Integer):
        return int(expression) > 0
    return bool(sympy.expand(expression).is_positive)


def lower_bound(expression: Index) -> int | None:
    """0 if the expression is known to be non-negative, else None."""
    # SymPy knows it of sums and products of variables, which are all declared non-negative.
    return 0 if expression.is_nonnegative else None


def upper_bound(expression: Index, ranges: Ranges) -> Index | None:
    """The largest value of an expression over the ranges, as an expression over sizes; None if it is unknown."""
    total: Index = ZERO
    for term in sympy.Add.make_args(expression):
        # A bound of each term bounds the sum, though the terms may not be largest together.
        largest = _largest_term(term, ranges)
        if largest is None:
            return None
        total = total + largest
    return sympy.expand(total)


def _largest_term(term: Index, ranges: Ranges) -> Index | None:
    largest: Index = ONE
    for factor in sympy.Mul.make_args(term):
        match factor:
            case sympy.Symbol() if factor in ranges:
                largest = largest * (ranges[factor] - 1)
            # The largest value of -i0 would need the smallest of i0.
            case sympy.Integer() if factor < 0:
                return None
            case sympy.Integer() | sympy.Symbol():
                # A loop variable without range, or an index from memory. Other symbols are sizes: they
                # are their own bound.
                if isinstance(factor, sympy.Symbol) and factor.name[0] in "irg":
                    return None
                largest = largest * factor
            case _ if isinstance(factor, Mod):
                largest = largest * (factor.args[1] - 1)
            case _ if isinstance(factor, FloorDiv):
                upper = upper_bound(factor.args[0], ranges)
                if upper is None:
                    return None
                largest = largest * FloorDiv(upper, factor.args[1])
            case _:
                return None
    return largest


def drop_floor_divisions(expression: Index) -> Index:
    """An upper bound without floor divisions that are multiplied by their divisor: ``2*(s0 // 2) - s0 -> 0``."""
    total: Index = ZERO
    for term in sympy.Add.make_args(sympy.expand(expression)):
        # n * (x // n) is at most x.
        factor, rest = term.as_coeff_Mul()
        if isinstance(rest, FloorDiv) and factor > 0:
            top, bottom = rest.args
            quotient = _exact_quotient(factor, bottom)
            total = total + (term if quotient is None else quotient * top)
        else:
            total = total + term
    return sympy.expand(total)


def simplify(expression: Index, ranges: Ranges) -> Index:
    """Simplify every division and remainder by the ranges of the variables, and merge quotients with remainders.

    ``8*((8*i0 + i1) // 8) -> 8*i0``; ``8*(i0 // 8) + i0 % 8 -> i0``.
    """
    # Most indices have neither; SymPy is slow enough to look first.
    if not expression.has(FloorDiv, Mod):
        return expression
    symbols = expression.free_symbols
    # The ranges of other variables would only make equal questions look different to the cache.
    return _simplified(expression, frozenset((name, size) for name, size in ranges.items() if name in symbols))


@functools.lru_cache(maxsize=8192)
def _simplified(expression: Index, known: frozenset[tuple[Symbol, Index]]) -> Index:
    ranges = dict(known)
    simplified: dict[Index, Index] = {}
    # Short ones first: a division within another is simplified before it.
    # Bounds of the variables are facts of the loops around it: i1 // 8 is 0 in a loop of 8, and stays in one of 16.
    for division in sorted(expression.atoms(FloorDiv, Mod), key=lambda atom: atom.count_ops()):
        top, bottom = (part.xreplace(simplified) for part in division.args)
        rule = divide if isinstance(division, FloorDiv) else remainder
        simplified[division] = rule(simplify(top, ranges), bottom, ranges)
    return _merge_quotient_and_remainder(sympy.expand(expression.xreplace(simplified)))


def _merge_quotient_and_remainder(expression: Index) -> Index:
    # c*n*(x // n) + c*(x % n) is c*x.
    for atom in sorted(expression.atoms(Mod), key=str):
        top, bottom = atom.args
        factor = expression.coeff(atom)
        merged = _merge_divisions(top, bottom)
        for whole in (each for each in expression.atoms(FloorDiv) if _merge_divisions(*each.args) == merged):
            if factor != 0 and not factor.has(Mod) and sympy.expand(expression.coeff(whole) - factor * bottom) == 0:
                return _merge_quotient_and_remainder(
                    sympy.expand(expression - factor * atom - factor * bottom * whole + factor * top)
                )
    return expression


def _merge_divisions(top: Index, bottom: Index) -> Index:
    """``(a + x//m) // n`` is ``(m*a + x) // (m*n)``."""
    # Nested divisions come from views of views; merged, they meet the remainder of the same variables.
    for term in sympy.Add.make_args(top):
        if isinstance(term, FloorDiv):
            inner, divisor = term.args
            return _merge_divisions(sympy.expand((top - term) * divisor + inner), sympy.expand(divisor * bottom))
    quotient: Index = FloorDiv(top, bottom)
    return quotient


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
            # A slope bounds rises alone: a Mod falls by up to d - 1, and a negative factor turns the fall into a rise.
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
