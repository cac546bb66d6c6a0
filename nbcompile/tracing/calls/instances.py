"""Results of ``isinstance`` for values without a Python object while tracing: tensors, and samples for protocols.

    isinstance(x, torch.FloatTensor)      by the type of the fake tensor
    isinstance(3.5, HasScale)             a protocol with attributes reads those of a value: any float is a sample

In torch: BuiltinVariable.call_isinstance in torch/_dynamo/variables/builtin.py. Read next: builtins.py
"""

from __future__ import annotations

import abc
import sys
import types
import typing
from collections.abc import Collection, Sequence

import torch

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import AttrSource
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import LazyVariable, UnknownVariable, VariableTracker, realise
from nbcompile.tracing.variables.lookup import MISSING, class_lookup
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.tensor import TensorVariable


def sample(value: VariableTracker) -> object:
    """A value of the same class with the same attributes, which protocols read; MISSING if there is none."""
    if isinstance(value, LazyVariable):
        return value.value
    if value.is_constant():
        return value.constant()
    cls = value.python_type()
    return cls() if cls in (int, float, bool, list, tuple, dict, set, frozenset) else MISSING


IS_STATIC = sys.version_info >= (3, 12)
"""True where a protocol looks for attributes with ``inspect.getattr_static``: from Python 3.12 on, not ``hasattr``."""
MARKS: dict[type, str] = {torch.nn.Parameter: "_is_param", torch.nn.Buffer: "_is_buffer"}
"""Attribute that ``isinstance`` reads of a tensor of another class: ``nn.Parameter(t)`` of a subclass marks t itself.
"""


def is_marked(tracer: Tracer, value: VariableTracker, cls: type) -> bool:
    """True if an attribute of a tensor marks it as a parameter or a buffer; guarded."""
    mark = MARKS.get(cls)
    if mark is None or issubclass(value.python_type(), cls):
        return False
    if not isinstance(value, UnknownVariable):
        return tracer.has_attribute(value, mark) and realise(tracer, value.get_attribute(tracer, mark)).truth(tracer)
    found = hasattr(value.value, mark)
    if value.source is not None:
        tracer.guard(value.source, GuardKind.HASATTR, (mark, found))
    below = None if value.source is None else AttrSource(value.source, mark)
    return found and tracer.wrap(getattr(value.value, mark), below).truth(tracer)


def is_tensor_instance(tracer: Tracer, value: TensorVariable, classes: Sequence[type]) -> bool:
    """True if a tensor is an instance of one of the classes."""
    example = value.example
    for cls in classes:
        if cls is torch.nn.Parameter or cls is torch.nn.Buffer:
            if issubclass(value.cls, cls) or is_marked(tracer, value, cls):
                return True
        elif cls.__module__ == "torch" and cls.__name__.endswith("Tensor") and cls is not torch.Tensor:
            # No tensor is of a class like ``torch.FloatTensor``, which means a dtype and a device.
            if example.type() == f"torch.{cls.__name__}":
                return True
        elif is_nominal(value.cls, cls) and tracer.evaluate(issubclass, (value.cls, cls)):
            return True
    return False


def is_protocol(cls: type) -> bool:
    """True for a protocol that ``isinstance`` accepts; it raises TypeError for any other one."""
    return bool(getattr(cls, "_is_protocol", False) and getattr(cls, "_is_runtime_protocol", False))


def has_methods_only(cls: type) -> bool:
    """True for a protocol without data members, which ``issubclass`` accepts."""
    return all(callable(getattr(cls, name, None)) for name in _members(cls))


def protocol_accepts(tracer: Tracer, subclass: type, cls: type) -> bool:
    """Result of a protocol for the class of a value, which ABCMeta caches."""
    # Not ``issubclass``, which rejects protocols with data members where ``isinstance`` does not.
    return bool(tracer.evaluate(abc.ABCMeta.__subclasscheck__, (cls, subclass)))


def _members(cls: type) -> Collection[str]:
    return typing._get_protocol_attrs(cls)  # type: ignore[attr-defined]


def is_nominal(subclass: type, cls: type) -> bool:
    """True if ``issubclass`` may be called; for a protocol with data members it raises, use ``implements``."""
    return not is_protocol(cls) or cls in subclass.__mro__


def is_changed(tracer: Tracer, value: ObjectVariable) -> bool:
    """True if the traced code created an object, or set or deleted an attribute of it."""
    return value.is_new() or bool(tracer.side_effects.stored_attributes(value))


def implements_one(tracer: Tracer, value: VariableTracker, classes: Sequence[type]) -> bool:
    """Return whether ``implements`` holds for a class; ``list[int]`` raises unless an earlier class matches."""
    for index, cls in enumerate(classes):
        if isinstance(cls, types.GenericAlias):
            if not set(classes[:index]).isdisjoint(value.python_type().__mro__):
                return True
            tracer.evaluate(isinstance, (None, cls))
        if implements(tracer, value, cls):
            return True
    return False


def implements(tracer: Tracer, value: VariableTracker, cls: type) -> bool:
    """True if a class is a protocol and a value has its attributes, as the traced code left them."""
    if not is_protocol(cls):
        return False
    return all(_has(tracer, value, name, callable(getattr(cls, name, None))) for name in sorted(_members(cls)))


def _has(tracer: Tracer, value: VariableTracker, name: str, is_method: bool) -> bool:
    of_class = class_lookup(value.python_type(), name)
    # The value of a computed attribute (``grad_fn``) does not matter, only that it exists.
    if isinstance(value, TensorVariable) and of_class is not MISSING and not isinstance(of_class, property):
        return not (is_method and of_class is None)
    found: VariableTracker | None
    if IS_STATIC and isinstance(value, ObjectVariable):
        found = value.static_attribute(tracer, name)
        if found is None:
            return False
        found = realise(tracer, found)
        return not (is_method and found.is_constant() and found.constant() is None)
    if not tracer.has_attribute(value, name):
        return False
    if not is_method:
        return True
    found = realise(tracer, value.get_attribute(tracer, name))  # ``m = None`` declares that there is no such method
    return not (found.is_constant() and found.constant() is None)
