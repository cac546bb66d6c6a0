"""Values that guards compare: which two are the same, and how one is shown.

    is_same_value(1, True)     False: ``==`` of Python is not enough
    describe_value([Net()])    "[<Net>]": the ``__repr__`` of the user does not run

In torch: nothing; guards compare by ``==``. Read next: nbcompile/guarding/prepared.py
"""

from __future__ import annotations

import enum
import math
import re
import reprlib
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, cast

import torch

from nbcompile.support.class_flags import HEAP_TYPE
from nbcompile.support.real_class import is_instance

Predicate = Callable[[Any], bool]


def describe_value(value: object) -> str:
    """Describe a value as text of bounded length, without running a ``__repr__`` of the user."""
    if is_instance(value, torch.Tensor):
        return f"tensor of {tuple(value.shape)}, {value.dtype}, {value.device}"
    if is_instance(value, FunctionType):
        value = value.__code__
    if is_instance(value, CodeType):
        return f"{value.co_qualname} ({Path(value.co_filename).name}:{value.co_firstlineno})"
    if is_instance(value, type):
        return value.__qualname__
    try:
        text = re.sub(r" at 0x[0-9a-f]+", "", _safe_repr.repr(value))  # addresses differ between two equal runs
    except Exception:  # noqa: BLE001 - a subclass of a container may raise anything
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 120 else text[:117] + "..."


class _SafeRepr(reprlib.Repr):
    """Bounded ``repr`` of nested values; an object with a ``__repr__`` of the user's is shown by its class."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = self.maxdeque = 20
        self.maxstring = self.maxother = self.maxlong = 120

    def repr_instance(self, x: Any, level: int) -> str:
        if isinstance(x, enum.Enum):
            return f"{type(x).__qualname__}.{x._name_}"
        # A ``__repr__`` in Python is a function, one in C a slot wrapper: the user's code must not run in a message.
        if isinstance(type(x).__repr__, FunctionType):
            return f"<{type(x).__qualname__}>"
        return super().repr_instance(x, level)


_safe_repr = _SafeRepr()


def is_same_value(value: object, expected: object) -> bool:
    """Return whether two values are identical: ``1``, ``True``, ``1.0`` differ, so do ``0.0``, ``-0.0``; NaN is NaN."""
    if type(value) is not type(expected):
        return False
    if isinstance(expected, tuple):
        return _are_same_values(cast("tuple[object, ...]", value), expected)
    if isinstance(expected, slice):
        return is_same_value(_parts(value), _parts(expected))
    if isinstance(expected, frozenset):
        # {1, 2.0} == {1.0, 2} and {0.0} == {-0.0}: each item is compared with the one that it equals.
        items = {item: item for item in cast("frozenset[object]", value)}
        return value == expected and all(is_same_value(items[item], item) for item in expected)
    if isinstance(expected, float):
        number = cast("float", value)
        if math.isnan(expected):
            return math.isnan(number)
        # 0.0 == -0.0, but 1 / x differs, and a compiled constant has one of the two signs.
        return number == expected and math.copysign(1.0, number) == math.copysign(1.0, expected)
    if isinstance(expected, complex):
        other = cast("complex", value)
        return is_same_value(other.real, expected.real) and is_same_value(other.imag, expected.imag)
    return bool(value == expected)


def _are_same_values(values: tuple[object, ...], expected: tuple[object, ...]) -> bool:
    if set(map(type, expected)) == {str} == set(map(type, values)):
        return values == expected  # the fast path: keys of a dict, most often
    return len(values) == len(expected) and all(map(is_same_value, values, expected))


def _parts(value: object) -> tuple[object, object, object]:
    part = cast("slice", value)
    return part.start, part.stop, part.step


def has_equal_lookalike(expected: object) -> bool:
    """Return whether some value of the same type is ``==`` but not identical (``0.0``, ``(1,)``)."""
    if isinstance(expected, float):
        return expected == 0.0
    if isinstance(expected, tuple | frozenset):
        return any(isinstance(item, int | float | complex | tuple | frozenset | slice) for item in expected)
    return isinstance(expected, complex | slice)


def has_lookalikes(member: object) -> bool:
    """Return whether a set may have a member that is equal but not identical: ``{True}`` has the member 1."""
    return isinstance(member, int | float | complex | tuple | frozenset)


def has_member(members: Collection[object], member: object) -> bool:
    """Return whether the value itself is in a set, not only one that is equal."""
    if isinstance(members, set | frozenset):  # what is in it, whatever methods its class has
        base: Any = set if isinstance(members, set) else frozenset
        is_there, items = base.__contains__(members, member), base.__iter__(members)
    else:
        is_there, items = member in members, iter(members)
    return is_there and (
        not has_lookalikes(member) or any(found is member or is_same_value(found, member) for found in items)
    )


def is_immortal(cls: type) -> bool:
    """Return whether a class lives as long as the process: one in C, or one that an imported module holds."""
    # A type that is no heap type has static memory, in the interpreter or a C extension.
    if not cls.__flags__ & HEAP_TYPE:
        return True
    module = None if cls.__module__ == "__main__" else sys.modules.get(str(cls.__module__))
    return module is not None and vars(module).get(cls.__qualname__) is cls


def spelled_property(name: str) -> str:
    """A property of a tensor as a program spells it: ``is_leaf``, ``is_shared()``."""
    return f"{name}()" if callable(getattr(torch.Tensor, name)) else name


def never_raising(predicate: Predicate) -> Predicate:
    """Wrap a predicate to return False where it raises: a check never raises into the user's call."""

    def safe_predicate(value: object) -> bool:
        try:
            return predicate(value)
        except Exception:  # noqa: BLE001 - user code runs here (__contains__, __getattr__)
            return False

    return safe_predicate
