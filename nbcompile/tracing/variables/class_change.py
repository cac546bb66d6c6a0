"""Assignment to ``__class__``: the object's class from then on, for all look-ups on it.

    shape.__class__ = Disc
    shape.area()               Disc's method; L['Disc'] is guarded, not type(L['shape'])

In torch: torch/_dynamo/variables/user_defined.py (method_setattr_standard). Read next: objects.py
"""

from __future__ import annotations

import types
from typing import Any

import torch

from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.classes import ClassVariable
from nbcompile.tracing.variables.lookup import class_lookup

STORES_IN_PYTHON = ("__setattr__", "__delattr__")


def expect_class(tracer: Tracer, cls: type, value: VariableTracker) -> ClassVariable:
    """The new class of an object; raises Python's error for an invalid one."""
    new = value.value if isinstance(value, ClassVariable) else None
    if new is None and value.is_constant():
        message = f"__class__ must be set to a class, not '{value.python_type().__name__}' object"
        tracer.raise_exception(TypeError, message)
    if new is None or not _is_traced(cls, new):
        raise breaks.unsupported(breaks.UNSUPPORTED_MUTATION, f"{cls.__name__}().__class__ = ...", name="class")
    # An assignment to a new, empty object raises Python's own error, if CPython finds the layouts incompatible.
    base: Any = next(each for each in cls.__mro__ if not isinstance(class_lookup(each, "__new__"), staticmethod))
    tracer.evaluate(object.__setattr__, (base.__new__(cls), "__class__", new))
    assert isinstance(value, ClassVariable)
    return value


def _is_traced(cls: type, new: type) -> bool:
    """True if an assignment that changes the class of an object is supported."""
    classes = (cls, new)
    # The side effects on one object are replayed together, by one setter and one deleter, whichever class it had.
    if any(class_lookup(cls, name) is not class_lookup(new, name) for name in STORES_IN_PYTHON):
        return False
    if issubclass(cls, torch.nn.Module) is not issubclass(new, torch.nn.Module):
        return False
    # ``expect_class`` creates an empty object: a ``__del__`` would run, and an abstract class has none.
    return not any(hasattr(each, "__del__") or getattr(each, "__abstractmethods__", None) for each in classes)


def is_class_slot(found: object) -> bool:
    """True for ``object.__class__`` itself, which no property of the program hides."""
    return isinstance(found, types.GetSetDescriptorType) and found is vars(object)["__class__"]
