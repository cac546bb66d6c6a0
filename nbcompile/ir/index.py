"""Index expressions: integer formulas over loop variables and sizes that give the position of an element.

Every size, stride, offset and index of the IR is a SymPy expression, also if it
is a plain number, so that symbolic shapes need no second code path.

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
    """The loop variable of a dimension of a result: ``i0`` for the first, ``i1`` for the second, ..."""
    # With these assumptions SymPy can prove bounds: i0 + 1 > 0, and 8*i0 + i1 is an integer.
    return sympy.Symbol(f"i{position}", integer=True, nonnegative=True)


@functools.cache
def reduction_variable(position: int) -> Symbol:
    """The loop variable of a reduced dimension: ``r0`` for the first, ..."""
    return sympy.Symbol(f"r{position}", integer=True, nonnegative=True)


@functools.cache
def gather_variable(number: int) -> Symbol:
    """The symbol of an index that is loaded from memory (expr.Gather): ``g0``, ..."""
    return sympy.Symbol(f"g{number}", integer=True, nonnegative=True)


def is_loop_variable(symbol: Symbol) -> bool:
    """Return whether a symbol is a loop variable, not a size and not a gathered index."""
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
    """The value of a constant expression; None if it is symbolic."""
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
        return (linear_index,) * len(size)  # no elements: the index is never computed, and must not divide by 0
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
    # torch's FloorDiv, not SymPy's floor(a / b): it is exact, and the printers support it.
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
    # numerator == divisor * whole + rest; whole has all terms that the divisor divides.
    # Term by term: 8*i0 + 16*i2 + i1 over 8 has the whole part i0 + 2*i2 and the rest i1.
    whole: list[Index] = []
    rest: list[Index] = []
    for term in sympy.Add.make_args(numerator):
        quotient = _exact_quotient(term, divisor)
        (rest if quotient is None else whole).append(term if quotient is None else quotient)
    total, remainder_sum = sympy.Add(*whole), sympy.Add(*rest)
    # (whole, rest) are quotient and remainder only if the rest is non-negative.
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
    # SymPy derives it for sums and products of variables, since all are declared non-negative.
    return 0 if expression.is_nonnegative else None


def upper_bound(expression: Index, ranges: Ranges) -> Index | None:
    """The largest value of an expression over the ranges, as an expression over sizes; None if it is unknown."""
    total: Index = ZERO
    for term in sympy.Add.make_args(expression):
        # The sum of the terms' bounds is a bound of the sum, although the terms may not be largest together.
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
                # A loop variable without a range, or an index from memory. Other symbols are sizes, which are their own
                # bounds.
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
    # Most indices have neither a division nor a remainder, and SymPy is slow, so this is checked first.
    if not expression.has(FloorDiv, Mod):
        return expression
    symbols = expression.free_symbols
    # Without the ranges of other variables, equal problems have equal keys in the cache.
    return _simplified(expression, frozenset((name, size) for name, size in ranges.items() if name in symbols))


@functools.lru_cache(maxsize=8192)
def _simplified(expression: Index, known: frozenset[tuple[Symbol, Index]]) -> Index:
    ranges = dict(known)
    simplified: dict[Index, Index] = {}
    # Short ones first, so that a division inside of another one is simplified before it. The loops give the bounds of
    # variables: i1 // 8 is 0 in a loop of 8, but not in a loop of 16.
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
    # Nested divisions come from views of views; once merged, they combine with the remainder of the same variables.
    for term in sympy.Add.make_args(top):
        if isinstance(term, FloorDiv):
            inner, divisor = term.args
            return _merge_divisions(sympy.expand((top - term) * divisor + inner), sympy.expand(divisor * bottom))
    quotient: Index = FloorDiv(top, bottom)
    return quotient
