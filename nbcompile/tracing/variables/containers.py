"""Base of lists, dicts, sets and ranges: methods are dispatched by name.

    xs.append(y)      the tracker's own ``method_append`` is called; nothing runs
    xs.__add__(ys)    as the operator
    method = d.get    a bound method, before it is called

In torch: nothing (each class of torch/_dynamo/variables/lists.py and dicts.py has a
chain of comparisons of names). Read next: sequences.py
"""

from __future__ import annotations

import collections
import functools
import operator
import types
from collections.abc import Callable
from typing import Any, ClassVar

import torch

from nbcompile.capture.recipe import FromSource, Recipe
from nbcompile.capture.source import Source
from nbcompile.support.signatures import signature_of
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise, realise_unless_deferred
from nbcompile.tracing.variables.class_facts import type_of_method
from nbcompile.tracing.variables.constant import ConstantVariable


class BuiltinMethodVariable(VariableTracker):
    """A bound method of a container, before it is called."""

    def __init__(self, owner: VariableTracker, name: str, source: Source | None = None) -> None:
        self.owner = owner
        self.name = name
        self.source = source  # of a method from outside: each look-up in the frame creates a new one

    def python_type(self) -> type:
        return type_of_method(self.owner.python_type(), self.name)

    def describe(self) -> str:
        return f"GetAttrVariable({self.owner.describe()}, {self.name})"

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name == "__self__" and self.name != "fromkeys":  # that one is bound to the class
            return self.owner
        return ConstantVariable(self.name) if name == "__name__" else super().get_attribute(tracer, name)

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        return self.owner.call_method(tracer, self.name, arguments, keywords)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return FromSource(self.source)
        from_owner = reconstruction.recipe(self.owner)
        return reconstruction.attribute(from_owner, self.name)


STORING_METHODS = frozenset(("append", "appendleft", "insert", "setdefault", "__setitem__"))
"""Methods that store their last argument without reading it: a deferred value stays deferred."""
OPERATOR_METHODS: dict[str, Callable[..., object]] = {
    f"__{name.strip('_')}__": getattr(operator, name)
    for name in (
        "add", "mul", "iadd", "imul", "and_", "or_", "xor", "sub", "iand", "ior", "ixor", "isub",
        "eq", "ne", "lt", "le", "gt", "ge",
    )
}  # fmt: skip
"""The operators that containers have, spelled as methods."""


class ContainerVariable(VariableTracker):
    """Base of lists, dicts and sets: methods are found by name, ``method_append``."""

    cls: type
    mutable: ClassVar[bool] = True
    version = 0
    """Number of changes so far."""

    def python_type(self) -> type:
        return self.cls

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name == "__class__":
            return tracer.wrap(self.cls, None)
        self.check_attribute(tracer, name)
        if hasattr(self, f"method_{name}") or name in OPERATOR_METHODS:
            return BuiltinMethodVariable(self, name)
        return super().get_attribute(tracer, name)

    def set_attribute(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        # Instances have no `__dict__`: raise Python's own error.
        if not self.cls.__dictoffset__:
            sample = tuple.__new__(self.cls, [None]) if issubclass(self.cls, tuple) else self.cls()
            tracer.evaluate(setattr, (sample, name, None))
        super().set_attribute(tracer, name, value)

    def call_method(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        base = next((kind for kind in self.cls.__mro__ if kind in _CONSTRUCTIBLE), None)
        if base is not None and not _takes(base, name, len(arguments), tuple(keywords)):
            # A call of the real method, on an empty instance with as many arguments, raises Python's own TypeError.
            nothing = [*_owner_of(base, name), *[None] * len(arguments)]
            tracer.evaluate(getattr(base, name), nothing, dict.fromkeys(keywords))
        method: Callable[..., VariableTracker | None] | None = getattr(self, f"method_{name}", None)
        if method is None and name in OPERATOR_METHODS and hasattr(self.cls, name):
            # Called as a method, an operator returns NotImplemented; only
            # the operator itself then calls the other operand's method.
            if len(arguments) == 1 and _returns_not_implemented(
                self.cls, name, realise(tracer, arguments[0]).python_type()
            ):
                return ConstantVariable(NotImplemented)
            return tracer.call(tracer.wrap(OPERATOR_METHODS[name], None), [self, *arguments])
        if method is None:
            return tracer.call(self.get_attribute(tracer, name), arguments, keywords)
        given = _operands(tracer, name, arguments)
        named = {key: realise(tracer, value) for key, value in keywords.items()}
        result = method(tracer, *given, **named)
        return ConstantVariable(None) if result is None else result

    def mark_mutated(self, tracer: Tracer) -> None:
        """Record that the value is about to change."""
        self.version += 1
        tracer.side_effects.mark_mutated(tracer, self)

    # The operators, spelled as methods.
    def method___getitem__(self, tracer: Tracer, key: VariableTracker) -> VariableTracker:
        return self.get_item(tracer, key)

    def method___setitem__(self, tracer: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        self.set_item(tracer, key, value)

    def method___delitem__(self, tracer: Tracer, key: VariableTracker) -> None:
        self.delete_item(tracer, key)

    def method___contains__(self, tracer: Tracer, item: VariableTracker) -> VariableTracker:
        return ConstantVariable(self.contains(tracer, item))

    def method___repr__(self, tracer: Tracer) -> VariableTracker:
        return tracer.call(tracer.wrap(repr, None), [self])

    def method___str__(self, tracer: Tracer) -> VariableTracker:
        return tracer.call(tracer.wrap(str, None), [self])

    def method___len__(self, tracer: Tracer) -> VariableTracker:
        return self.length(tracer)

    def method___iter__(self, tracer: Tracer) -> VariableTracker:
        return self.iterate(tracer)


def _operands(tracer: Tracer, name: str, arguments: Arguments) -> list[VariableTracker]:
    stored = 1 if name in STORING_METHODS and arguments else 0
    read = len(arguments) - stored
    operands = [realise(tracer, value) for value in arguments[:read]]
    return operands + [realise_unless_deferred(tracer, value) for value in arguments[read:]]


_CONSTRUCTIBLE = frozenset(
    (
        list, dict, set, frozenset, tuple, torch.Size,
        collections.deque, collections.OrderedDict, collections.defaultdict,
    )
)  # fmt: skip
"""Classes whose empty instance supplies Python's error message."""


def _owner_of(cls: type, name: str) -> tuple[object, ...]:
    """An instance for a method, nothing for a class method, such as ``dict.fromkeys``."""
    return () if isinstance(getattr(cls, name), types.BuiltinFunctionType) else (cls(),)


@functools.cache
def _takes(cls: type, name: str, count: int, keywords: tuple[str, ...]) -> bool:
    """Return whether a method of a built-in class takes so many positional arguments, and keywords of these names."""
    method = getattr(cls, name, None)
    if method is None:
        return True  # a method of a named tuple
    nothing = [*_owner_of(cls, name), *[None] * count]
    named: dict[str, Any] = dict.fromkeys(keywords)
    try:
        if name != "__init__":  # the signature of ``__init__`` is only ``*args, **kwargs``
            signature_of(method).bind(*nothing, **named)
            return True
    except TypeError:
        return False
    except ValueError:
        pass
    # C code without a signature: the method of an empty instance is called.
    try:
        method(*nothing, **named)
    except TypeError as error:
        return "argument" not in str(error)
    except (LookupError, ValueError):
        pass
    return True


_DICTS: tuple[dict[object, object], ...] = ({}, collections.OrderedDict())
_VIEWS = [getattr(d, view)() for d in _DICTS for view in ("keys", "values", "items")]
_SAMPLES: dict[type, object] = {
    type(sample): sample
    for sample in (
        object(), [], (), {}, set(), frozenset(), range(0),
        collections.deque(), collections.OrderedDict(), collections.defaultdict(), *_VIEWS,
    )
}  # fmt: skip


def _returns_not_implemented(cls: type, name: str, other: type) -> bool:
    """True if an operator method of a built-in class returns NotImplemented for operands of a class.

    The real method is called with empty instances, so no hand-written list can be wrong.
    """
    owner, operand = (next(_SAMPLES[base] for base in given.__mro__ if base in _SAMPLES) for given in (cls, other))
    if type(owner) is object or getattr(cls, name) is not getattr(type(owner), name, None):
        return False  # a class of the program, or one derived in C
    try:
        return getattr(owner, name)(operand) is NotImplemented
    except TypeError:
        return False
