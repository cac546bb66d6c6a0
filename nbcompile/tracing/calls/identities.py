"""Identity while tracing: what ``is`` compares, and the guards that its result needs.

    f(x, x): x is y                     a guard that both arguments stay one object
    weakref.ref(x) is weakref.ref(x)    True: an object has one reference without a callback

In torch: torch/_dynamo/variables/builtin.py (``handle_is``). Read next: nbcompile/tracing/calls/comparisons.py
"""

from __future__ import annotations

import torch

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import ArraySource, ParameterSource, Source
from nbcompile.tracing.calls.operations import GRAPH_VALUES
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.classes import ClassVariable
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.functions import MethodVariable
from nbcompile.tracing.variables.instance_dict import InstanceDictVariable
from nbcompile.tracing.variables.ndarray import NdarrayVariable
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.sequences import TupleVariable
from nbcompile.tracing.variables.symbolic import SymbolicVariable
from nbcompile.tracing.variables.tensor import TensorVariable

SMALL = range(-5, 257)
"""Integers that CPython caches: one object each."""


def identical(left: VariableTracker, right: VariableTracker) -> bool:
    """``left is right``."""
    match left, right:
        case _ if left is right:
            return True
        case TensorVariable(), TensorVariable():
            return left.node is right.node or left.example is right.example
        case ConstantVariable(), ConstantVariable():
            return left.value is right.value
        case (MethodVariable(), _) | (_, MethodVariable()):
            return False  # each access creates a new bound method
        case InstanceDictVariable(), InstanceDictVariable():
            return identical(left.owner, right.owner)
        case TupleVariable(), TupleVariable() if left.cls is right.cls is tuple:
            return not left.items and not right.items  # CPython has one empty tuple
        case (ObjectVariable(), _) if left.is_new():
            return False  # an object that the program created has one tracker, and the first case compares these
        case (_, ObjectVariable()) if right.is_new():
            return False
    # Both may represent one object that existed before: its trackers have it under one of two attribute names.
    names = ("value", "function")
    real = [getattr(operand, name) for operand in (left, right) for name in names if hasattr(operand, name)]
    # None here means that there is no object: the tracker of a tuple has one only for a class with attributes.
    known = len(real) == 2 and real[0] is not None and real[0] is real[1]
    return known and not isinstance(left, (ConstantVariable, SymbolicVariable))


def needs_guard(left: VariableTracker, right: VariableTracker, same: bool) -> bool:
    """True if the result for two values from outside may differ in another call."""
    if isinstance(left, TensorVariable) and isinstance(right, TensorVariable):
        # One tensor under two names has its guard already.
        return not same and not any(isinstance(each.source, (ArraySource, ParameterSource)) for each in (left, right))
    if isinstance(left, NdarrayVariable) and isinstance(right, NdarrayVariable):
        return True
    # Results of the graph get no guard, and classes have one on the very object.
    plain = (ConstantVariable, *GRAPH_VALUES)
    if isinstance(left, plain) or isinstance(right, plain):
        return False
    return not (isinstance(left, ClassVariable) and isinstance(right, ClassVariable))


def is_same_constant(tracer: Tracer, left: ConstantVariable, right: ConstantVariable) -> bool:
    """``is`` of two constants: two from outside may be one object in this call, and two equal objects in the next."""
    same = left.value is right.value
    if left.source is None or right.source is None or left.source == right.source:
        return same  # CPython decides whether equal constants of the program are one object
    # Python has one object for each small integer, bool, empty string, ...: no guard is needed.
    if type(left.value) is not type(right.value) or type(left.value) not in _OF_MANY_OBJECTS:
        return same
    if (type(left.value) is int and left.value in SMALL) or left.value != right.value:
        return same  # NaNs have guards already, since containers compare them by identity, too
    return is_same_outside(tracer, left.source, right.source)


_OF_MANY_OBJECTS = (int, float, complex, str, bytes, torch.device)
"""Classes of constants of which two equal ones may be two objects."""


def is_same_outside(tracer: Tracer, left: Source, right: Source) -> bool:
    """``is`` of two values from outside, with a guard on the result."""
    if tracer.real_value(left) is tracer.real_value(right):
        if left != right:
            tracer.guard(left, GuardKind.OBJECT_ALIASING, right)
        return True
    tracer.guard(None, GuardKind.NO_OBJECT_ALIASING, (left, right))
    return False
