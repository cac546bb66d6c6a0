"""Attribute look-up: the steps of ``object.__getattribute__`` on real classes and objects.

    class_lookup(Savings, "rate")     the entry of the first class of the method resolution order that has it
    is_data_descriptor(found)         a property, a slot: comes before the instance's own attributes
    class_overlay(tracer, cls, name)  the value that the traced code stored on the class
    address_of(cls)                   the source for guards on its attributes, if the class has none

In torch: torch/_dynamo/variables/user_defined.py (inspect.getattr_static and
its like). Read next: objects.py
"""

from __future__ import annotations

import collections
import functools
import threading
import types
from collections.abc import Callable
from typing import Any

import torch
import torch.distributions

from nbcompile import torch_internals
from nbcompile.capture.source import AttrSource, ConstantSource, GenericAttrSource, Source
from nbcompile.support.class_flags import HEAP_TYPE
from nbcompile.tracing import breaks, rules
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.constant import ConstantVariable

MISSING = object()
WHILE_TRACED: dict[tuple[type, str], VariableTracker] = {
    (torch.distributions.Distribution, "_validate_args"): ConstantVariable(False),
}
"""Values of certain class attributes while code is traced. The validation of a distribution's parameters branches on
data; torch.compile disables it, too, for the whole process.
"""
BINDS = (types.FunctionType, functools._lru_cache_wrapper)
"""Classes whose instances become methods when they are found on the class of an object."""
INSTANCE_METHOD: type = type(vars(torch._C.Graph)["nodes"])
"""The class of methods in C++ (pybind11's), which are functions in C that bind like Python functions."""
PLAIN_SETTERS = frozenset((object.__setattr__, threading.local.__setattr__, types.SimpleNamespace.__setattr__))
"""Functions in C that only store into the object's dict."""
CLASS_METHODS_IN_C = (torch_internals.AUTOGRAD_APPLY, vars(dict)["fromkeys"], vars(collections.OrderedDict)["fromkeys"])
"""Class methods in C with a handler or a polyfill."""


# What `owner.name` finds, in this order (object.__getattribute__):
#      1  a data descriptor of the class        property, slot
#      2  the owner's own dict
#      3  other attributes of the class         a function is bound to the owner
#      4  what __getattr__ returns, if the class has one
def class_lookup(cls: type, name: str) -> object:
    """Entry of a class or its bases under a name, unbound; MISSING if there is none."""
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return MISSING


def address_of(cls: type) -> Source | None:
    """A source for a class without one: the residual program has the class as a constant.

    Its attributes can then be guarded. None for classes of Python and torch, which are assumed not to change.
    """
    if not cls.__flags__ & HEAP_TYPE or rules.is_trusted_module(str(cls.__module__)):
        return None
    # The class itself is a constant of the entry, so the address of its attributes begins with it.
    return ConstantSource(cls.__name__, cls)


def is_class_method_in_c(found: object) -> bool:
    """True for an entry of a class that binds to the class, as a ``classmethod`` does, and is supported."""
    return isinstance(found, types.ClassMethodDescriptorType) and found in CLASS_METHODS_IN_C


def is_data_descriptor(found: object) -> bool:
    """True for an entry of a class that takes precedence over the instance's own attributes."""
    return hasattr(type(found), "__set__") or hasattr(type(found), "__delete__")


def accessor_in_c(cls: type, name: str) -> Callable[..., Any]:
    """``__getattribute__`` or ``__setattr__`` of the nearest base class in C, which a user's override finally calls."""
    own = (base.__dict__[name] for base in cls.__mro__ if name in base.__dict__)
    found: Callable[..., Any] = next(each for each in own if isinstance(each, types.WrapperDescriptorType))
    return found


def keeps_dict_elsewhere(cls: type) -> bool:
    """True if its objects may have attributes that ``object`` does not find: threading.local has a dict per thread."""
    return accessor_in_c(cls, "__getattribute__") is not object.__getattribute__


def instance_dict(value: object) -> dict[str, object]:
    """The ``__dict__`` of a real object, without calling a ``__getattribute__`` in Python; {} if it has none."""
    try:
        members: dict[str, object] = accessor_in_c(type(value), "__getattribute__")(value, "__dict__")
    except AttributeError:
        return {}
    return members


def has_dict(value: object) -> bool:
    """True if a real object has a ``__dict__``; calls no ``__getattribute__`` in Python."""
    try:
        accessor_in_c(type(value), "__getattribute__")(value, "__dict__")
    except AttributeError:
        return False
    return True


def dict_source(source: Source, cls: type) -> Source:
    """The source of an object's ``__dict__``, without a ``__getattribute__`` in Python."""
    in_python = isinstance(class_lookup(cls, "__getattribute__"), types.FunctionType)
    return (GenericAttrSource if in_python else AttrSource)(source, "__dict__")


def class_overlay(tracer: Tracer, cls: type, name: str) -> VariableTracker | None:
    """Value that the traced code stored on a class or one of its bases, or that replaces it while tracing."""
    for base in cls.__mro__:
        if tracer.side_effects.is_deleted_of(base, name) and name in base.__dict__:
            # The real class still has it while tracing, and other code that reads it would find it.
            raise breaks.unsupported(
                breaks.UNSUPPORTED_MUTATION, f"del {base.__name__}.{name}", name="class that is read"
            )
        stored = tracer.side_effects.attribute_of(base, name) or WHILE_TRACED.get((base, name))
        # A class with the name hides values that were stored on later classes of the order.
        if stored is not None or name in base.__dict__:
            return stored
    return None
