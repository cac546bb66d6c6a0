"""Operators on numbers that mean the same in a graph as in Python.

    a // k     a guard that k is not zero: a graph does not raise
    1 / k      a guard that ints are exact as floats: Python rounds only the quotient
    1 << k     a guard that k is less than the number of bits of an int in a graph
    a ** b     a guard that a float is positive: Python's power of others may be complex, or raises
    (k > 3) == 1    a truth value is no number in SymPy, where this is False: it becomes a constant

If the guard does not hold now, Python's operator is evaluated, and the numbers are constants.

In torch: nothing. Read next: nbcompile/tracing/inputs/int64_bounds.py, for the size of the result
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

import torch

from nbcompile.capture import arrays
from nbcompile.tracing.inputs.int64_bounds import INT64_MAX
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.symbolic import SymbolicVariable

EXACT = 2**53
"""Largest number up to which each int is exact as a float."""
BITS = 62
"""Greatest number of bits by which an int of a graph is shifted."""
LOGICAL = frozenset({operator.and_, operator.or_, operator.xor, operator.iand, operator.ior, operator.ixor})
"""Operators whose result is a truth value for two truth values."""


def operands_of(
    function: Callable[..., object], left: VariableTracker, right: VariableTracker
) -> tuple[VariableTracker, VariableTracker]:
    """Operands in which each truth value that is used as 0 or 1 is converted to a number."""
    if function in LOGICAL and _is_truth_value(left) and _is_truth_value(right):
        return left, right
    return _as_number(left, right), _as_number(right, left)


def _as_number(value: VariableTracker, other: VariableTracker) -> VariableTracker:
    # SymPy compares a truth value with 1 without an error, and returns that they differ.
    if isinstance(other, (SymbolicVariable, ConstantVariable)) and _is_truth_value(value):
        known = value.specialise() if isinstance(value, SymbolicVariable) else value.constant()
        return ConstantVariable(int(known))  # type: ignore[call-overload]
    return value


def _is_truth_value(value: VariableTracker) -> bool:
    return isinstance(value, (SymbolicVariable, ConstantVariable)) and value.python_type() is bool


def is_as_in_python(
    tracer: Tracer, function: Callable[..., object], left: VariableTracker, right: VariableTracker
) -> bool:
    """True if an operator may be in the graph; adds the guards that this requires."""
    expected = _EXPECTED.get(function)
    # Constants first: they must be small enough. Then the operator's own conditions, as guards on the symbols.
    if not all(_fits_int64(each) for each in (left, right)):
        return False
    return expected is None or not _is_known(left, right) or expected(tracer, left, right)


def _is_known(*operands: VariableTracker) -> bool:
    """True if all operands have an example: unbacked numbers have no guards."""
    return all(each.example.node.has_hint() for each in operands if isinstance(each, SymbolicVariable))


def _fits_int64(operand: VariableTracker) -> bool:
    value = None if isinstance(operand, SymbolicVariable) else operand.constant()
    if arrays.is_array(value):  # NumPy's scalars promote the result to NumPy's types
        return False
    return not isinstance(value, int) or abs(value) <= INT64_MAX


def _divides(tracer: Tracer, left: VariableTracker, right: VariableTracker) -> bool:
    return right.truth(tracer)


def _divides_exactly(tracer: Tracer, left: VariableTracker, right: VariableTracker) -> bool:
    return _divides(tracer, left, right) and all(_is_exact(tracer, each) for each in (left, right))


def _is_exact(tracer: Tracer, operand: VariableTracker) -> bool:
    if isinstance(operand, SymbolicVariable):
        return not isinstance(operand.example, torch.SymInt) or tracer.output.inputs.keep_in_range(
            operand.example, EXACT
        )
    value = operand.constant()
    return not isinstance(value, int) or abs(value) <= EXACT


def _number(operand: VariableTracker) -> object:
    return operand.example if isinstance(operand, SymbolicVariable) else operand.constant()


def _has_power(tracer: Tracer, left: VariableTracker, right: VariableTracker) -> bool:
    base, exponent = _number(left), _number(right)
    of_ints = all(isinstance(each, (int, torch.SymInt)) for each in (base, exponent))
    # Ints come first: they need no guard on the base. An int to the power of a negative int is a float.
    return (of_ints and bool(exponent >= 0)) or bool(base > 0)  # type: ignore[operator]


def _shifts(tracer: Tracer, left: VariableTracker, right: VariableTracker) -> bool:
    amount = _number(right)
    return not isinstance(amount, (int, torch.SymInt)) or bool(0 <= amount <= BITS)


_EXPECTED: Mapping[Callable[..., object], Callable[[Tracer, VariableTracker, VariableTracker], bool]] = {
    operator.floordiv: _divides,
    operator.mod: _divides,
    operator.truediv: _divides_exactly,
    operator.pow: _has_power,
    operator.lshift: _shifts,
    operator.rshift: _shifts,
}
