"""Properties of objects that depend only on their class: which attributes they have, and its name in an error.

    has_class_members_only(type(iter([])))    True: hasattr(iter(xs), "keys") is False, whatever it iterates over
    is_class_member(list, "__mro__")          False: list.__mro__ is an attribute of ``type``
    name_in_errors(collections.deque)         "collections.deque"
    is_fixed(torch.Generator, "device")       True: the attribute is a constant of the object
    constant_in_c(memoryview(b"ab"), "nbytes")    2: what the getter in C returns now, which a guard evaluates again

In torch: ``hasattr`` of such a value breaks the graph (``call_obj_hasattr`` of torch/_dynamo/variables/base.py).
Read next: base.py
"""

from __future__ import annotations

import inspect
from types import (
    BuiltinFunctionType,
    BuiltinMethodType,
    GenericAlias,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    UnionType,
    WrapperDescriptorType,
)

import torch

from nbcompile.support.class_flags import is_class_statement
from nbcompile.support.real_class import class_is_computed

_GENERAL_LOOKUP = frozenset({"_collections", "builtins", "collections", "datetime", "decimal", "itertools"})
"""Modules whose classes in C look attributes up as ``object`` does, but for those of _OWN_LOOKUP."""
_OWN_LOOKUP = frozenset({type, super, ModuleType, MethodType, GenericAlias, UnionType})

_FIXED = frozenset(
    (
        torch.Generator.device,
        torch.Stream.device,
        torch.Stream.device_index,
        torch.Stream.device_type,
        torch.Stream.stream_id,
    )
)
"""Attributes in C of classes that are otherwise unsupported. No program can assign to one."""


def has_class_members_only(cls: type) -> bool:
    """True if objects have the attributes of their class and no others: no ``__dict__``, and the general look-up."""
    if cls.__dictoffset__ or is_class_member(cls, "__getattr__"):
        return False
    # Most classes in C have a ``__getattribute__`` of their own that does the same as ``object``'s. Python cannot
    # distinguish these, so modules are listed.
    is_known = cls.__module__ in _GENERAL_LOOKUP and cls not in _OWN_LOOKUP and not is_class_statement(cls)
    return is_known or next(base for base in cls.__mro__ if "__getattribute__" in base.__dict__) is object


def is_class_member(cls: type, name: str) -> bool:
    """True if the class or a base of it has the name; ``hasattr`` would also search its metaclass."""
    return any(name in base.__dict__ for base in cls.__mro__)


def is_fixed(cls: type, name: str) -> bool:
    """True if an attribute in C never changes during an object's life, so that its value can be read and guarded."""
    found = next((base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), None)
    return isinstance(found, (GetSetDescriptorType, MemberDescriptorType)) and found in _FIXED


NO_CONSTANT = object()
"""Result of :func:`constant_in_c` where the attribute is none."""
_IMMUTABLE = frozenset({int, float, complex, bool, str, bytes, type(None), torch.dtype, torch.device})


def constant_in_c(value: object, name: str) -> object:
    """The value of an attribute that C computes, if it is an immutable constant, else NO_CONSTANT.

    A getter may return a new list or object at each read: a change of it would be lost in eager mode, and no
    guard could compare it.
    """
    found = next((base.__dict__[name] for base in type(value).__mro__ if name in base.__dict__), None)
    in_c = isinstance(found, (GetSetDescriptorType, MemberDescriptorType)) or _is_property_in_c(found)
    if found is None or not in_c or class_is_computed(type(value)):
        return NO_CONSTANT
    try:
        computed = found.__get__(value)
    except Exception:  # noqa: BLE001 - eager mode's own error: it is raised where the frame runs as written
        return NO_CONSTANT
    return computed if _is_immutable(computed) else NO_CONSTANT


def _is_property_in_c(found: object) -> bool:
    """True for a property of pybind11, whose getter is a function in C of its own."""
    getter = found.fget if type(found) is property else None
    # `property(len)` is in C as well, and calls the program's `__len__`.
    is_own = isinstance(getter, BuiltinFunctionType) and not isinstance(getter.__self__, ModuleType)
    return is_own or type(getter).__name__ == "instancemethod"


def _is_immutable(value: object) -> bool:
    return type(value) in _IMMUTABLE or (type(value) is tuple and all(map(_is_immutable, value)))


def is_method_in_c(cls: type, name: str) -> bool:
    """True if objects of the class have a method of the name that is written in C."""
    found = next((base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), None)
    return isinstance(found, (MethodDescriptorType, WrapperDescriptorType))


def type_of_method(cls: type, name: str) -> type:
    """The type of ``value.name`` of a method in C: another one for slots (``__len__``) than for methods."""
    found = inspect.getattr_static(cls, name, None)
    return MethodWrapperType if isinstance(found, WrapperDescriptorType) else BuiltinMethodType


def name_in_errors(cls: type) -> str:
    """The name of a class in errors of Python's: one in C, outside ``builtins``, with its module."""
    # C prints tp_name, which has the module for types of C only: 'collections.deque', but 'MyClass'.
    is_short = is_class_statement(cls) or cls.__module__ == "builtins"
    return cls.__name__ if is_short else f"{cls.__module__}.{cls.__name__}"
