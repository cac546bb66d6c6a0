"""Constants, values that are known while tracing: a number, a string, a dtype, None, an enum member...

    ConstantVariable(3) + ConstantVariable(4)  ->  ConstantVariable(7), no node

In torch: torch/_dynamo/variables/constant.py. Read next: tensor.py
"""

from __future__ import annotations

import enum
import types
from collections.abc import Hashable, Sequence

import torch
import torch.nn.attention

from nbcompile.capture import arrays
from nbcompile.capture.complex_literals import exact
from nbcompile.capture.recipe import Constant, Recipe
from nbcompile.capture.source import AttrSource, Source
from nbcompile.support.real_class import is_instance
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import (
    Arguments,
    Keywords,
    VariableTracker,
    is_deferred,
    realise,
    realise_unless_deferred,
)

SCALARS = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), type(NotImplemented))


def is_constant_value(value: object) -> bool:
    """True if a real value is tracked as a constant: it is immutable, and so are all of its parts."""
    if type(value) in SCALARS or is_instance(
        value, (enum.Enum, torch.dtype, torch.device, torch.layout, torch.memory_format, torch.nn.attention.SDPBackend)
    ):
        return True
    if is_instance(value, (torch.finfo, torch.iinfo, types.CodeType)) or arrays.is_type_info(value):
        return True
    # A list of constants is no constant: it may change, and is a tracker with items.
    if type(value) in (tuple, frozenset):
        return all(is_constant_value(item) for item in value)  # type: ignore[attr-defined]
    return type(value) is slice and all(is_constant_value(part) for part in (value.start, value.stop, value.step))


_WHERE_CODE_IS = ("co_filename", "co_firstlineno", "co_lines", "co_linetable", "co_positions")
"""Attributes of code that may differ in a later process: an equal function may be in another file, on another line."""


class ConstantVariable(VariableTracker):
    """A value that is known while tracing."""

    def __init__(self, value: object, source: Source | None = None) -> None:
        self.value = value
        self.source = source

    def python_type(self) -> type:
        return type(self.value)

    def describe(self) -> str:
        return f"ConstantVariable({type(self.value).__name__}: {self.value!r})"

    def is_constant(self) -> bool:
        return True

    def constant(self) -> object:
        return self.value

    def proxy(self) -> object:
        if isinstance(self.value, enum.Enum) and isinstance(self.value, int):
            return int(self.value)  # the graph's text cannot name a combination of flags
        if arrays.is_array(self.value):
            return self.value.item()  # type: ignore[attr-defined]  # one of NumPy's scalars
        return exact(self.value)

    def hash_key(self, tracer: Tracer) -> Hashable:
        return self.value  # a NaN, too: a dict finds it where it is the same object, as Python's does

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if isinstance(self.value, enum.Enum):
            own = self._of_member(tracer, self.value, name)
            if own is not None:
                return own
        if isinstance(self.value, types.CodeType) and name in _WHERE_CODE_IS:
            tracer.depend_on_process("the file and the lines of code")
        # Evaluated on the real value: constants have no state of the user's that needs a guard.
        attribute = tracer.evaluate(getattr, (self.value, name))
        if arrays.is_type_info(self.value) and arrays.is_array(attribute):
            return ConstantVariable(attribute)
        if isinstance(attribute, type):  # `value.__class__` is a class like any other, as `type(value)` is
            return tracer.wrap(attribute, None)
        if callable(attribute) and not is_constant_value(attribute):
            return ConstantMethodVariable(self, name, attribute)
        return tracer.constant_or_wrap(attribute)

    def call_method(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        return tracer.call(self.get_attribute(tracer, name), arguments, keywords)

    def _of_member(self, tracer: Tracer, member: enum.Enum, name: str) -> VariableTracker | None:
        """Attribute that the user's enum class adds to a member: methods are traced, stored attributes guarded."""
        if name in member.__dict__ and not name.startswith("_") and self.source is not None:
            return tracer.wrap(member.__dict__[name], AttrSource(self.source, name))
        owner = next((base for base in type(member).__mro__ if name in base.__dict__), None)
        if owner is None or not issubclass(owner, enum.Enum) or owner.__module__ == "enum":
            return None
        # Only members written in Python can be traced; `name` and `value` of a member are enum's own.
        users = isinstance(owner.__dict__[name], (types.FunctionType, property, classmethod, staticmethod))
        return tracer.bind(self, type(member), name) if users else None

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        if callable(self.value):
            traced = self._of_member(tracer, self.value, "__call__") if isinstance(self.value, enum.Enum) else None
            return (
                super().call(tracer, arguments, keywords)
                if traced is None
                else tracer.call(traced, arguments, keywords)
            )
        tracer.raise_exception(TypeError, f"'{self.type_name()}' object is not callable")

    def get_item(self, tracer: Tracer, key: VariableTracker) -> VariableTracker:
        index = key.constant() if key.is_constant() else tracer.index_of(key)
        return tracer.constant_or_wrap(tracer.evaluate(lambda value, index: value[index], (self.value, index)))

    def contains(self, tracer: Tracer, item: VariableTracker) -> bool:
        if not item.is_constant():
            self._raise_missing(tracer, "__contains__", "__iter__", "__getitem__")
        return bool(tracer.evaluate(lambda value, other: other in value, (self.value, item.constant())))

    def iterate(self, tracer: Tracer) -> VariableTracker:
        items = tracer.evaluate(list, (self.value,))
        text = self.value if isinstance(self.value, (str, bytes)) else None
        return tracer.iterator([tracer.constant_or_wrap(item) for item in items], text)  # type: ignore[attr-defined]

    def length(self, tracer: Tracer) -> VariableTracker:
        return ConstantVariable(tracer.evaluate(len, (self.value,)))

    def truth(self, tracer: Tracer) -> bool:
        return bool(self.value)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return Constant(self.value, type(self.value).__name__)


class ConstantMethodVariable(VariableTracker):
    """A bound method of a constant: ``"a-b".split``; with constant arguments it is evaluated while tracing."""

    def __init__(self, owner: ConstantVariable, name: str, method: object) -> None:
        self.owner = owner
        self.name = name
        self.method = method

    def python_type(self) -> type:
        return type(self.method)

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        if (text := self._formatted(tracer, arguments, keywords)) is not None:
            return text
        values = [realise(tracer, value) for value in arguments]
        named = {name: realise(tracer, value) for name, value in keywords.items()}
        # The argument may be a list tracker, which is no constant, though all of its items are.
        if self.name == "join" and (joined := self._join(tracer, values)) is not None:
            return joined
        if all(value.is_constant() for value in (*values, *named.values())):
            plain = [value.constant() for value in values]
            keyed = {name: value.constant() for name, value in named.items()}
            return tracer.constant_or_wrap(tracer.evaluate(self.method, plain, keyed))
        if self.name in ("format_map", "translate") and values and values[0].python_type() is dict:
            return self._with_dict(tracer, values[0])
        if self.name == "format" and isinstance(self.owner.value, str):
            return tracer.format_string(self.owner.value, values, named)
        self.owner.no_method(self.name)

    def _formatted(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker | None:
        """``template.format(...)`` of texts that are written after the graph; None for other calls."""
        if self.name != "format" or not isinstance(self.owner.value, str) or not any(map(is_deferred, arguments)):
            return None
        return tracer.format_string(
            self.owner.value, [realise_unless_deferred(tracer, value) for value in arguments], keywords
        )

    def _join(self, tracer: Tracer, values: Sequence[VariableTracker]) -> VariableTracker | None:
        separator = self.owner.value
        if not isinstance(separator, (str, bytes)) or len(values) != 1:
            return None
        if values[0].is_constant() and not hasattr(values[0].python_type(), "__iter__"):
            tracer.evaluate(separator.join, (values[0].constant(),))  # raises Python's error: not an iterable
        parts = [realise_unless_deferred(tracer, part) for part in values[0].unpack_keeping_deferred(tracer)]
        if (deferred_result := tracer.join_texts(separator, parts)) is not None:
            return deferred_result
        parts = [realise(tracer, part) for part in parts]
        if not all(part.is_constant() for part in parts):
            return None
        return ConstantVariable(tracer.evaluate(separator.join, ([part.constant() for part in parts],)))

    def _with_dict(self, tracer: Tracer, argument: VariableTracker) -> VariableTracker:
        """``format_map`` or ``translate`` with a dict, some of whose values may be unknown."""
        pairs = [pair.unpack(tracer) for pair in argument.call_method(tracer, "items", [], {}).unpack(tracer)]
        if all(part.is_constant() for pair in pairs for part in pair):
            known = {key.constant(): value.constant() for key, value in pairs}
            return tracer.constant_or_wrap(tracer.evaluate(self.method, (known,)))
        if self.name == "translate":
            self.owner.no_method(self.name)
        assert isinstance(self.owner.value, str)
        return tracer.format_string(self.owner.value, [], {str(key.constant()): value for key, value in pairs})

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return Constant(self.method, self.name)
