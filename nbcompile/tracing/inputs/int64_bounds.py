"""Bounds of the ints of a graph: they are int64 there, while Python's have no limit.

    n + 1      n is the size of a tensor: fits
    k + 1      k is an argument, guarded to be smaller than 2**62: fits
    k * k      guarded to fit as well, or else k is a constant of this entry

In torch: nothing; its graphs count modulo 2**64 there. Read next:
nbcompile/tracing/calls/numbers.py
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

LARGEST = 2**62 - 1
"""Largest int that may enter a graph, or leave an operator on ints: with room for a sum."""
INT64_MAX = 2**63 - 1
REASON = "an int of the graph is an int64: a larger one is a constant"
"""The note of a guard that a symbolic int is not larger."""
SIZE = 2**31
"""No tensor has a dim that is longer."""

_Rule = Callable[[Sequence[float]], float]


def _first(bounds: Sequence[float]) -> float:
    return bounds[0]


def _power(bounds: Sequence[float]) -> float:
    base, exponent = bounds
    return base**exponent if base <= INT64_MAX and exponent <= 64 else math.inf


_RULES: Mapping[str, _Rule] = {
    "Add": sum,
    "Mul": math.prod,
    "Pow": _power,
    "PowByNatural": _power,
    "Max": max,
    "Min": max,
    "Abs": _first,
    "Identity": _first,
    "FloorDiv": _first,
    "CleanDiv": _first,
    "Mod": lambda bounds: bounds[1],
    "PythonMod": lambda bounds: bounds[1],
}
"""Largest result of each operator, given the largest value of its operands."""


def keep_in_range(
    number: torch.SymInt, greatest: int, of_symbol: Callable[[Any], float], input_of: Callable[[object], object]
) -> bool:
    """Guard that an int is at most ``greatest``; False: it is larger, and its inputs are constants now.

    ``of_symbol`` gives the greatest value of a symbol, ``input_of`` the input that it is, or None.
    """
    limit = INT64_MAX if greatest == LARGEST else greatest
    # Asking a symbol in ``bool`` or ``int`` records a guard. First what is known without one: the bound of the
    # expression from the bounds of its symbols.
    if not number.node.has_hint() or bound(number.node.expr, of_symbol) <= limit:
        return True
    if abs(number.node.hint) <= greatest:
        return bool(-greatest <= number) and bool(number <= greatest)  # each adds a guard
    # Too large already: a call with smaller numbers is compiled anew.
    for symbol in number.node.expr.free_symbols:
        found = input_of(symbol)
        if isinstance(found, torch.SymInt):
            int(found)
    return False


def bound(expression: Any, of_symbol: Callable[[Any], float]) -> float:
    """The greatest absolute value that an expression of sympy can have, as far as is known."""
    if expression.is_number:
        return abs(int(expression)) if expression.is_integer else math.inf
    if expression.is_symbol:
        return of_symbol(expression)
    rule = _RULES.get(type(expression).__name__)
    if rule is None:
        return math.inf
    return rule([bound(each, of_symbol) for each in expression.args])


def limits(name: str) -> str:
    """The condition that a symbolic int fits into the graph."""
    return f"-{LARGEST} <= {name} <= {LARGEST}"
