"""Special methods that an operator calls, in Python's order.

    class Two(Sum): __radd__ = ...
    Sum() + Two()      Two.__radd__ first: it overrides the reflected method

In torch: torch/_dynamo/variables/builtin.py (``call_binop_handlers``). Read next: nbcompile/tracing/calls/operations.py
"""

from __future__ import annotations

import types
from collections.abc import Sequence

from nbcompile.tracing.calls.built_in_operands import accepts
from nbcompile.tracing.calls.operator_table import COMPARISONS, Operator
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import VariableTracker, realise
from nbcompile.tracing.variables.classes import ClassVariable
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.mapping_proxy import MappingProxyVariable
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.sequences import TupleVariable
from nbcompile.tracing.variables.type_forms import TypeFormVariable

TYPES = (ClassVariable, TypeFormVariable, ConstantVariable)


def special(tracer: Tracer, rule: Operator, left: VariableTracker, right: VariableTracker) -> VariableTracker | None:
    """The special methods of user classes, the subclass's reflected one first."""
    # Python calls the left operand's method first, unless the right one's class derives from the left one's and
    # overrides the reflected method: then that comes first. In a comparison the derived class always comes first.
    attempts = [(left, rule.method, right), (right, rule.reflected, left)]
    kinds = left.python_type(), right.python_type()
    if kinds[0] is not kinds[1] and issubclass(kinds[1], kinds[0]) and _overrides(kinds[1], kinds[0], rule):
        attempts.reverse()
    for owner, name, other in attempts:
        if has_method(tracer, owner, name):
            result = realise(tracer, tracer.call_special(owner, name, [other]))  # NotImplemented: try the next
            if not (result.is_constant() and result.constant() is NotImplemented):
                return result
        # A class in C, or a tracker's own operator, implements it: the other operand's
        # method is not called, and the caller continues with the values themselves.
        elif accepts(owner, name, other):
            return None
    return None


def _overrides(derived: type, base: type, rule: Operator) -> bool:
    return rule in COMPARISONS.values() or getattr(derived, rule.reflected, None) is not getattr(
        base, rule.reflected, None
    )


def has_method(tracer: Tracer, owner: VariableTracker, name: str) -> bool:
    """True if the program defines an operator: in its own class, named tuples included."""
    if isinstance(owner, ObjectVariable):
        return owner.has_special(tracer, name) and not owner.is_built_in(name)
    return isinstance(owner, TupleVariable) and isinstance(getattr(owner.cls, name, None), types.FunctionType)


def has_torch_function(tracer: Tracer, value: VariableTracker) -> bool:
    """True if its class has a ``__torch_function__``, which operators of tensors call."""
    return isinstance(value, ObjectVariable) and value.has_special(tracer, "__torch_function__")


def behind_proxy(tracer: Tracer, value: VariableTracker) -> VariableTracker:
    """The mapping of a mapping proxy, or the value itself."""
    return value.mapping if isinstance(value, MappingProxyVariable) else value


def call_special(
    tracer: Tracer, owner: VariableTracker, name: str, arguments: Sequence[VariableTracker]
) -> VariableTracker:
    """Call a special method, looked up on the class: ``x.__len__ = f`` does not change ``len(x)``."""
    if isinstance(owner, ObjectVariable):
        return owner._special(tracer, name, arguments, {})
    if isinstance(owner, TupleVariable):
        return tracer.call(tracer.bind(owner, owner.cls, name), arguments)
    return owner.call_method(tracer, name, arguments, {})
