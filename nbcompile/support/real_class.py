"""Instance checks of the program's values that run none of its code: they go by the class that an object really has.

    is_instance(value, torch.nn.Module)    as isinstance, but for an object whose ``__class__`` is another one
    class_is_computed(type(value))         True if the object may notice isinstance

``isinstance(value, cls)`` reads ``value.__class__`` where the class of the value is no subclass of ``cls``, and that
may be a property, a ``__getattribute__`` that counts, or a weak proxy whose object has ended.

In torch: nothing; ``object_isinstance`` in Objects/abstract.c of CPython. Read next:
nbcompile/tracing/wrapping/table.py
"""

from __future__ import annotations

import types
import weakref
from typing import TypeGuard, TypeVar

T = TypeVar("T")
_PROXIES = (weakref.ProxyType, weakref.CallableProxyType)


def is_instance(value: object, classes: type[T] | tuple[type[T], ...] | types.UnionType) -> TypeGuard[T]:
    """True if the value's own class is one of the classes, or derives from one."""
    return issubclass(type(value), classes)


def class_is_computed(cls: type) -> bool:
    """True if ``value.__class__`` of an object of a class may run code, or raise.

    That is so of a proxy, and of a class with ``__getattribute__``, or with ``__class__`` of its own.
    """
    own = any("__class__" in base.__dict__ for base in cls.__mro__ if base is not object)
    return own or cls in _PROXIES or is_instance(cls.__getattribute__, types.FunctionType)
