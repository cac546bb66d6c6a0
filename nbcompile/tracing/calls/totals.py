"""``sum`` of numbers, symbols, tensors and objects while tracing.

    sum([x, y], start=z)        z + x, and a node for each further item
    sum([0.1] * 10)             1.0 from Python 3.12 on, 0.9999999999999999 before

From 3.12 on CPython's sum of floats is compensated (Neumaier): a second number collects the rounding errors. Python's
own ``sum`` computes it: while tracing if all numbers are known, after the graph if some depend on sizes.

In torch: torch/_dynamo/variables/builtin.py (``call_sum``), which adds one item after the other. Read next: folding.py
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from nbcompile.tracing.calls import operations
from nbcompile.tracing.calls.registry import handles
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.deferred import DeferredVariable, can_be_deferred
from nbcompile.tracing.variables.symbolic import SymbolicVariable

IS_COMPENSATED = sys.version_info >= (3, 12)
"""True if CPython's sum of floats is compensated: the rounding errors are added up, and added at the end."""
_WORD = 2**63
"""Integers from here on do not fit into a C long: CPython leaves its loops over numbers there."""


@handles(sum)
def _sum(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    start = arguments[1] if len(arguments) > 1 else keywords.get("start", ConstantVariable(0))
    iterator = realise(tracer, arguments[0]).iterate(tracer)
    if issubclass(first := start.python_type(), (str, bytes, bytearray)):
        tracer.evaluate(sum, ([], first()))  # raises Python's error
    total: VariableTracker | None = None
    run: list[VariableTracker] = []  # the start and the numbers after it, which are not added yet
    while (item := iterator.next_item(tracer)) is not None:
        addend = realise(tracer, item)  # realised before the start value, as the iterator is read first
        if total is None:
            run = run or [realise(tracer, start)]
            if IS_COMPENSATED and _is_number(run[0]) and _is_number(addend):
                run.append(addend)
                continue
        total = operations.binary(tracer, "+", _of_numbers(tracer, run) if total is None else total, addend)
    if total is None:
        return _of_numbers(tracer, run) if run else realise(tracer, start)
    return total


def _is_number(value: VariableTracker) -> bool:
    """Return whether CPython's loops over ints and floats take a value as one of theirs."""
    if isinstance(value, SymbolicVariable):
        return value.python_type() in (int, float)
    if not value.is_constant():
        return False
    number = value.constant()
    return type(number) in (bool, float) or (type(number) is int and -_WORD <= number < _WORD)


def _of_numbers(tracer: Tracer, numbers: Sequence[VariableTracker]) -> VariableTracker:
    """The total of numbers; the first is the start."""
    if not _is_rounded_once(numbers):
        if all(number.is_constant() for number in numbers):
            return ConstantVariable(sum_of(*(number.constant() for number in numbers)))  # type: ignore[arg-type]
        if can_be_deferred(numbers):
            return DeferredVariable(sum_of, numbers)
    total = numbers[0]
    for number in numbers[1:]:
        total = operations.binary(tracer, "+", total, number)
    return total


def _is_rounded_once(numbers: Sequence[VariableTracker]) -> bool:
    """Return whether additions one after the other have the same total."""
    if numbers[0].python_type() is bool:  # no loop over numbers begins with one
        return True
    # The rounding error of the last addition changes nothing: the rounded total is the float that is nearest to both.
    floats = [index for index, number in enumerate(numbers) if number.python_type() is float]
    return len(floats) < 2 or floats[1] == len(numbers) - 1


def sum_of(start: float, *numbers: float) -> float:
    """Compute ``sum`` as this Python does."""
    return sum(numbers, start)
