"""``left | right`` of dicts: which class the result has.

    {} | {}                       dict
    OrderedDict() | {}            OrderedDict; so is {} | OrderedDict(), a subclass that has the operator itself
    Counter() | {}                dict: Counter's own method returns NotImplemented, and dict's creates a dict

In torch: DictVariable of torch/_dynamo/variables/dicts.py. Read next: nbcompile/tracing/calls/operations.py
"""

from __future__ import annotations

import collections
import types

from nbcompile.tracing import breaks
from nbcompile.tracing.polyfills import ordered
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.classes import ClassVariable
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.objects import ObjectVariable

_IN_C = (collections.OrderedDict, collections.defaultdict, dict)
"""Classes that implement the operator in C, the most derived first."""


def union(tracer: Tracer, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    """The union of two dicts or objects of subclasses of dict, whose methods in Python were called before."""
    if left.python_type() is right.python_type() and _own(left.python_type()) is None:
        # Its method in Python returned NotImplemented, and of two operands of one class only the left one's is called.
        name = left.type_name()
        tracer.raise_exception(TypeError, f"unsupported operand type(s) for |: '{name}' and '{name}'")
    implemented = _implementation(left.python_type(), right.python_type())
    owner = left if issubclass(left.python_type(), implemented) else right
    cls = owner.python_type() if implemented is not dict else dict
    if isinstance(owner, ObjectVariable) and implemented is not dict:
        if implemented is collections.OrderedDict:
            return tracer.call_python(ordered.union, ClassVariable(cls), left, right)
        raise breaks.unsupported(  # its C code calls the class with a factory
            breaks.UNSUPPORTED_OPERATOR,
            f"{left.describe()} | {right.describe()}",
            symbol="|",
            types=f"{left.type_name()}, {right.type_name()}",
        )
    default = owner.default if isinstance(owner, DictVariable) and implemented is not dict else None
    result = DictVariable(tracer, (), cls=cls, default=default)
    for operand in (left, right):
        # C code copies the items of a subclass with an ``__iter__`` of its own by ``keys`` and ``__getitem__``.
        result.call_method(tracer, "update", [operand], {})
    return result


def _implementation(left: type, right: type) -> type:
    """The class whose ``|`` in C creates the result, in CPython's order."""
    found = [_own(left), _own(right)]
    if left is not right and issubclass(right, left) and found[0] is not found[1]:
        found.reverse()
    return next((owner for owner in found if owner is not None), dict)


def _own(cls: type) -> type | None:
    """The class from which this one inherits its operator; None if that is written in Python."""
    if isinstance(getattr(cls, "__or__", None), types.FunctionType):
        return None
    return next(owner for owner in _IN_C if issubclass(cls, owner))
