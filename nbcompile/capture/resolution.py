"""Resolution of sources: the value at an address, fetched from a call's scope.

The simple reference implementation: guards and the residual program fetch the same values faster, and their tests
compare with this. It runs no code of the user: no ``__getitem__``, no property, no
``__torch_function__``.

    scope = Scope(code, {"self": model}, {}, {})
    resolve(AttrSource(LocalSource("self"), "w"), scope)   model.w

In torch: torch/_dynamo/guards.py (``get``, by evaluating the expression). Read next: nbcompile/capture/guard.py
"""

from __future__ import annotations

import collections
import gc
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any, assert_never

import torch

from nbcompile.capture.arrays import from_array
from nbcompile.capture.source import (
    ArraySource,
    AttrSource,
    BuiltinSource,
    CellSource,
    ClassMemberSource,
    ConstantSource,
    DrawSource,
    FunctionModeSource,
    GenericAttrSource,
    GlobalSource,
    ItemSource,
    IteratorItemSource,
    KeySource,
    LocalSource,
    MappingSource,
    MethodFunctionSource,
    ModuleSource,
    NoArgsCallSource,
    ParameterSource,
    SizeSource,
    Source,
    TypeSource,
    ValueSource,
)
from nbcompile.support.real_class import is_instance
from nbcompile.torch_internals import function_mode_at


@dataclass(frozen=True, slots=True)
class Scope:
    """The names a source is resolved in: one call of one code object."""

    code: CodeType
    locals: dict[str, object]
    globals: dict[str, object]
    builtins: dict[str, object]


def resolve(source: Source, scope: Scope) -> object:
    """Fetch the value of a source, step by step.

    Raises whatever the look-up raises (KeyError, AttributeError, ...), as the
    state of the program may differ from the traced one.
    """
    match source:
        case LocalSource(name):
            return scope.locals[name]
        case GlobalSource(name):
            return scope.globals[name]
        case BuiltinSource(name):
            return scope.builtins[name]
        case ModuleSource(name):
            return sys.modules[name]
        case FunctionModeSource(index):
            return function_mode_at(index)
        case GenericAttrSource(base, attribute):
            return object.__getattribute__(resolve(base, scope), attribute)
        case AttrSource(base, attribute):
            return read_attribute(resolve(base, scope), attribute)
        case DrawSource() | ItemSource(DrawSource()) | ItemSource(ItemSource(DrawSource())):
            return None  # random numbers are drawn later, when the residual program runs
        case ItemSource(base, key):
            return read_item(resolve(base, scope), key)
        case KeySource(base, index):
            return keys_of(resolve(base, scope))[index]
        case ValueSource(base, index):
            return values_of(resolve(base, scope))[index]
        case IteratorItemSource(base, index):
            return iterator_item(resolve(base, scope), index)
        case TypeSource(base):
            return type(resolve(base, scope))
        case MappingSource(base):
            return mapping_behind(resolve(base, scope))
        case NoArgsCallSource(base):
            reference: Any = resolve(base, scope)
            return reference()
        case CellSource(base, _, index):
            function = resolve(base, scope)
            assert isinstance(function, FunctionType) and function.__closure__ is not None
            return function.__closure__[index].cell_contents
        case MethodFunctionSource(base, name):
            return class_attribute(type(resolve(base, scope)), name)
        case ClassMemberSource(base, name, after):
            cls = resolve(base, scope)
            assert isinstance(cls, type)
            return class_attribute(cls, name, after)
        case ConstantSource(_, value):
            return value
        case SizeSource(base, property, dim):
            return read_property(resolve(base, scope), property, dim)
        case ArraySource(base):
            return from_array(resolve(base, scope))
        case ParameterSource(base, requires_grad):  # equal to that of the residual program, but another object
            data = resolve(base, scope)
            assert isinstance(data, torch.Tensor)
            return torch.nn.Parameter(data, requires_grad)
        case _:
            assert_never(source)


def read_property(tensor: Any, name: str, dim: int | None) -> object:
    """Read a :class:`SizeSource` without calling the tensor's class or a function mode."""
    with torch._C.DisableTorchFunction():
        return getattr(tensor, name)() if dim is None else getattr(tensor, name)(dim)


def read_attribute(owner: object, name: str) -> object:
    """Read an :class:`AttrSource`; for a tensor, without calling its class or a function mode."""
    if not is_instance(owner, torch.Tensor):
        return getattr(owner, name)
    with torch._C.DisableTorchFunction():
        return getattr(owner, name)


def mapping_behind(proxy: object) -> object:
    """The mapping that a mapping proxy shows: the only object that it refers to; no attribute returns it."""
    (mapping,) = gc.get_referents(proxy)
    return mapping


def keys_of(mapping: Any) -> list[object]:
    """The items of an iteration: the keys of a mapping, the items of a set, whatever ``__iter__`` its class has."""
    kinds = (set, frozenset, collections.OrderedDict, dict)
    base: Any = next((cls for cls in kinds if isinstance(mapping, cls)), None)
    return list(mapping if base is None else base.__iter__(mapping))


def values_of(mapping: Any) -> list[object]:
    """The values of a dict, in its order."""
    base: Any = collections.OrderedDict if isinstance(mapping, collections.OrderedDict) else dict
    return list(base.values(mapping))


def remaining(iterator: object) -> Sequence[object]:
    """The items that an iterator over a tuple or a range has left, without advancing it."""
    # ``iter(t).__reduce__()`` is ``(iter, (t,), position)``.
    state: Any = iterator.__reduce__()
    sequence, *position = state[1:]  # (the sequence,) and the position; an exhausted iterator has no position
    left: Sequence[object] = sequence[0][position[0] if position else 0 :]
    return left


def iterator_item(iterator: object, index: int) -> object:
    """An item that an iterator has left, by its position."""
    return remaining(iterator)[index]


_MISSING = object()


_CONTAINERS: tuple[Any, ...] = (dict, list, tuple, collections.deque)


def read_item(container: object, key: object) -> object:
    """Read an :class:`ItemSource` without the ``__getitem__`` and ``__missing__`` of the container's class."""
    # The look-up must not run user code, nor insert a default.
    if is_instance(container, dict):
        found = dict.get(container, key, _MISSING)
        if found is _MISSING:
            raise KeyError(key)
        return found
    for plain in _CONTAINERS:
        if is_instance(container, plain):
            return plain.__getitem__(container, key)
    return container[key]  # type: ignore[index]


def has_own_items(container: object) -> bool:
    """Return whether ``container[key]`` may run Python: a ``__getitem__`` of a subclass of dict, for example."""
    return is_instance(container, _CONTAINERS) and not isinstance(
        class_attribute(type(container), "__getitem__"), (WrapperDescriptorType, MethodDescriptorType)
    )


def kind_of_member(cls: type, name: str) -> str:
    """The kind of member that a class has under a name, as text: "" for none; a function of a library is named.

    If the class gets a property of that name, the look-up of an instance's attribute changes; if a library's method
    that is traced by its name is replaced, its meaning changes.
    """
    try:
        found = class_attribute(cls, name)
    except AttributeError:
        return ""
    kind = f"{type(found).__module__}.{type(found).__qualname__}"
    if isinstance(found, FunctionType) and str(found.__globals__.get("__name__")).partition(".")[0] == "torch":
        return f"{kind} {found.__globals__['__name__']}.{found.__code__.co_qualname}"
    return kind


def class_attribute(cls: type, name: str, after: int = 0) -> object:
    """The unbound member that a class or its bases have under a name; AttributeError if none."""
    # Not getattr, which binds the member: a function would become a method, and a property's
    # code would run.
    for base in cls.__mro__[after:]:
        if name in base.__dict__:
            return base.__dict__[name]
    raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
