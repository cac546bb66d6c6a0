"""Results of special methods in Python, as the built-in function that calls the method returns them.

    def __len__(self): return -1         len(value) is a ValueError
    def __bool__(self): return 1         bool(value) is a TypeError
    def __int__(self): return True       int(value) is 1

In torch: nothing, it returns what the method returned. Read next: nbcompile/tracing/variables/objects.py
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.symbolic import SymbolicVariable


class ResultRule(NamedTuple):
    """The built-in function that calls a special method, and the class of a result that it returns unchanged."""

    function: Callable[[Any], object]
    expected: type


RULES = {
    "__len__": ResultRule(len, int), "__length_hint__": ResultRule(operator.length_hint, int),
    "__bool__": ResultRule(bool, bool), "__int__": ResultRule(int, int), "__float__": ResultRule(float, float),
    "__complex__": ResultRule(complex, complex), "__bytes__": ResultRule(bytes, bytes),
    "__index__": ResultRule(operator.index, int), "__hash__": ResultRule(hash, int),
}  # fmt: skip
"""Special methods whose results Python checks."""


def checked(tracer: Tracer, method: str, result: VariableTracker, owner: VariableTracker) -> VariableTracker:
    """Return what the built-in function returns for the result of a special method of an object.

    Raises:
        the error of Python for a result of another class, or a negative length.
    """
    rule = RULES.get(method)
    value = realise(tracer, result)
    if rule is None or (isinstance(value, SymbolicVariable) and value.python_type() is rule.expected):
        return value
    # A length may be any object with an ``__index__``.
    if method == "__len__" and not issubclass(value.python_type(), int) and hasattr(value.python_type(), "__index__"):
        value = realise(tracer, tracer.call(tracer.wrap(operator.index, None), [value]))
    if value.python_type() is rule.expected and rule.function not in (len, operator.length_hint, hash):
        return value
    # The built-in function itself, on an object whose method returns the value (or a stand-in for it): the result and
    # the error are Python's.
    returned = stand_in(value)
    probe = type(owner.python_type().__name__, (), {method: lambda _: returned})()
    return ConstantVariable(tracer.evaluate(rule.function, (probe,)))


def stand_in(value: VariableTracker) -> object:
    """An object of a class of the same name, with the same built-in value: errors of Python name the class."""
    if isinstance(value, ConstantVariable):
        return value.value
    if isinstance(value, SymbolicVariable):
        return value.specialise()
    part = getattr(value, "base_items", None)
    if isinstance(part, ConstantVariable):  # an object of a class that derives from int, str ...
        built_in: Any = type(part.value)
        return type(value.error_name(), (built_in,), {})(part.value)
    return type(value.error_name(), (), {})()
