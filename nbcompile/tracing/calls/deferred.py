"""Deferred functions and operators: Python computes them after the graph, as nothing in the graph needs their results.

    math.gcd(n, 6)        no operator of a graph; here it is a deferred value
    math.isqrt(n)         and a guard that n is not negative: a residual program does not raise
    f"{n}".zfill(3)       methods of deferred texts

In torch: nothing; it breaks the graph, or specialises the numbers. Read next:
nbcompile/tracing/variables/deferred.py
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Callable, Mapping, Sequence

import torch

from nbcompile.tracing.calls.folding import fold
from nbcompile.tracing.calls.operator_table import BINARY, COMPARISONS
from nbcompile.tracing.calls.registry import handles
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, is_deferred, realise_unless_deferred
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.deferred import DeferredVariable, can_be_deferred
from nbcompile.tracing.variables.strings import join
from nbcompile.tracing.variables.symbolic import SymbolicVariable

LARGEST_FACTORIAL = 200
"""Greatest operand of ``factorial``, ``comb`` and ``perm`` that are deferred."""
Condition = Callable[[Tracer, Sequence[VariableTracker]], bool]
"""Test that a function cannot raise for such operands; adds guards for it."""


def _ints(tracer: Tracer, operands: Sequence[VariableTracker]) -> bool:
    return all(operand.python_type() is int for operand in operands)


def _at_least_zero(tracer: Tracer, operands: Sequence[VariableTracker]) -> bool:
    return _ints(tracer, operands) and all(_is_between(operand, 0, sys.maxsize) for operand in operands)


def _small(tracer: Tracer, operands: Sequence[VariableTracker]) -> bool:
    # Python raises an error for the text of a number of too many digits.
    return _ints(tracer, operands) and all(_is_between(operand, 0, LARGEST_FACTORIAL) for operand in operands)


def _character(tracer: Tracer, operands: Sequence[VariableTracker]) -> bool:
    return _ints(tracer, operands) and all(_is_between(operand, 0, sys.maxunicode) for operand in operands)


def _is_between(operand: VariableTracker, low: int, high: int) -> bool:
    if isinstance(operand, SymbolicVariable):
        number = operand.example
        assert isinstance(number, torch.SymInt)
        return bool(number >= low) and (high == sys.maxsize or bool(number <= high))
    return operand.is_constant() and low <= operand.constant() <= high  # type: ignore[operator]


def _numbers(tracer: Tracer, operands: Sequence[VariableTracker]) -> bool:
    # An int that is too large for a float raises: a deferred int may be, one of the graph has 64 bits.
    return all(
        operand.python_type() is float or (operand.python_type() is int and not is_deferred(operand))
        for operand in operands
    )


DEFERRABLE: Mapping[object, tuple[int, Condition]] = {
    math.gcd: (9, _ints), math.lcm: (9, _ints),
    int.bit_count: (1, _ints), int.bit_length: (1, _ints), ascii: (1, _ints),
    bin: (1, _ints), hex: (1, _ints), oct: (1, _ints),
    math.isqrt: (1, _at_least_zero), math.factorial: (1, _small),
    math.comb: (2, _small), math.perm: (2, _small), chr: (1, _character),
    math.isclose: (2, _numbers), math.isfinite: (1, _numbers), math.isinf: (1, _numbers), math.isnan: (1, _numbers),
}  # fmt: skip
"""Functions without a form for symbols: up to how many operands they take, and when they cannot raise."""


def function(tracer: Tracer, called: object, arguments: Arguments, keywords: Keywords) -> VariableTracker | None:
    """The deferred call of a function of numbers; None for any other function."""
    if called not in DEFERRABLE or keywords:
        return None
    most, cannot_raise = DEFERRABLE[called]
    operands = [realise_unless_deferred(tracer, argument) for argument in arguments]
    if len(operands) > most or not can_be_deferred(operands) or not cannot_raise(tracer, operands):
        return None
    try:
        return DeferredVariable(called, operands)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


_OF_INTS = frozenset("+-*&|^")
"""Operators whose result for two ints is an int, and that do not raise."""


def binary(tracer: Tracer, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker | None:
    """The deferred result of an operator on a deferred value; None if it needs the value now."""
    if not is_deferred(left) and not is_deferred(right):
        return None
    left, right = realise_unless_deferred(tracer, left), realise_unless_deferred(tracer, right)
    if not can_be_deferred([left, right]):
        return None
    kinds = left.python_type(), right.python_type()
    if symbol == "+" and kinds == (str, str):
        return join([left, right])
    if symbol == "*" and kinds in ((str, int), (int, str)):
        return DeferredVariable(operator.mul, [left, right])
    if kinds == (int, int) and symbol in _OF_INTS:
        return DeferredVariable(BINARY[symbol].function, [left, right])
    return None


def comparison(tracer: Tracer, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker | None:
    """A deferred comparison of ints, one of which is deferred, or of conditions; None if it needs the value now."""
    if symbol in ("==", "!=") and can_be_deferred([left, right]) and left.python_type() is right.python_type() is bool:
        return DeferredVariable(COMPARISONS[symbol].function, [left, right])
    if not is_deferred(left) and not is_deferred(right):
        return None
    left, right = realise_unless_deferred(tracer, left), realise_unless_deferred(tracer, right)
    if can_be_deferred([left, right]) and left.python_type() is int and right.python_type() is int:
        return DeferredVariable(COMPARISONS[symbol].function, [left, right])
    return None


_TEXT_METHODS = frozenset({
    "capitalize", "casefold", "center", "expandtabs", "ljust", "lower", "lstrip", "removeprefix", "removesuffix",
    "replace", "rjust", "rstrip", "strip", "swapcase", "title", "upper", "zfill",
})  # fmt: skip
"""Methods that return a text for every text."""


class TextMethodVariable(VariableTracker):
    """A method of a deferred text: ``f"{n}".zfill``."""

    def __init__(self, owner: DeferredVariable, name: str) -> None:
        self.owner = owner
        self.name = name

    def python_type(self) -> type:
        return type("".join)

    def describe(self) -> str:
        return f"GetAttrVariable({self.owner.describe()}, {self.name})"

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        given = [realise_unless_deferred(tracer, argument) for argument in arguments]
        if not keywords and all(argument.is_constant() for argument in given):
            try:
                return DeferredVariable(getattr(str, self.name), [self.owner, *given])
            except (TypeError, ValueError, OverflowError):
                pass  # raised again below, in the traced program
        found = self.owner.realise(tracer).get_attribute(tracer, self.name)
        return tracer.call(found, given, keywords)


def method(owner: VariableTracker, name: str) -> VariableTracker | None:
    """A method of a deferred text; None if it needs the characters now."""
    if name in _TEXT_METHODS and isinstance(owner, DeferredVariable) and is_deferred(owner):
        return TextMethodVariable(owner, name) if owner.python_type() is str else None
    return None


def joined(separator: object, parts: Sequence[VariableTracker]) -> VariableTracker | None:
    """``separator.join(parts)``, some of which are deferred; None for other parts."""
    if (
        not isinstance(separator, str)
        or not can_be_deferred(parts)
        or any(part.python_type() is not str for part in parts)
    ):
        return None
    pieces: list[VariableTracker] = []
    for part in parts:
        pieces += [*([ConstantVariable(separator)] if pieces else []), part]
    return join(pieces)


def _bits(called: object, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return function(tracer, called, arguments, keywords) or fold(tracer, called, arguments, keywords)


handles(int.bit_count)(functools.partial(_bits, int.bit_count))
handles(int.bit_length)(functools.partial(_bits, int.bit_length))
