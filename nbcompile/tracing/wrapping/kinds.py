"""Kinds of values: the predicates of the table of wrapping.

In torch: the comparisons of VariableBuilder._wrap (torch/_dynamo/variables/builder.py).
Read next: nbcompile/tracing/wrapping/table.py
"""

from __future__ import annotations

import cmath
import collections
import enum
import functools
import types
import weakref
from collections.abc import Callable

import torch

from nbcompile.support.real_class import is_instance

CALLABLES = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
    functools._lru_cache_wrapper,
    torch._ops.OpOverload,
    torch._ops.OpOverloadPacket,
)


def is_a(*types_: type) -> Callable[[object], bool]:
    """Values of these classes and their subclasses."""
    return lambda value: is_instance(value, types_)


def is_exactly(*types_: type) -> Callable[[object], bool]:
    """Values of these classes and of no subclass."""
    return lambda value: type(value) in types_


def is_user_object(value: object) -> bool:
    """An instance of a class that was written in Python."""
    if type(value) is types.SimpleNamespace:
        return True
    return bool(type(value).__flags__ & (1 << 9)) and not is_instance(
        value, (type, BaseException, weakref.ref)
    )  # a heap type


def is_plain_object(value: object) -> bool:
    """An object whose attributes may change while it stays a key or a member."""
    return is_user_object(value) and not is_instance(value, (torch.Tensor, torch.nn.Module, enum.Enum, tuple))


def has_own_hash(value: object) -> bool:
    """A key that cannot be looked up without running the program's own ``__hash__`` and ``__eq__``."""
    return is_instance(value, torch.Tensor) or (
        is_plain_object(value) and isinstance(type(value).__hash__, types.FunctionType)
    )


def is_nan(value: object) -> bool:
    """A number that is not equal to itself: a container finds it by its identity."""
    return is_instance(value, float | complex) and cmath.isnan(value)


def is_namedtuple(value: object) -> bool:
    """A named tuple: of ``collections``, or in C as ``sys.version_info`` and what operators of torch return."""
    return is_instance(value, tuple) and (
        hasattr(type(value), "_fields") or isinstance(getattr(type(value), "n_sequence_fields", None), int)
    )


def is_method_of_tensor(value: object) -> bool:
    """``x.add``, bound to its tensor."""
    return is_instance(value, types.BuiltinMethodType) and is_instance(value.__self__, torch.Tensor)


def is_method_of_container(value: object) -> bool:
    """``xs.append``, bound to its list."""
    containers = (list, dict, set, frozenset, tuple, collections.deque)
    return is_instance(value, types.BuiltinMethodType) and type(value.__self__) in containers
