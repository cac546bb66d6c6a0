"""``types.MappingProxyType(d)``: a read-only view of a dict.

    signature.parameters["x"]     reads the dict behind it
    C.__dict__["method"]          the entry of the class's dict, unbound

In torch: torch/_dynamo/variables/dicts.py (MappingProxyVariable). Read next:
nbcompile/tracing/variables/instance_dict.py
"""

from __future__ import annotations

import types
from collections.abc import Hashable

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.recipe import Call, Constant, Recipe
from nbcompile.capture.source import AttrSource, ItemSource, Source
from nbcompile.tracing.exceptions import Unhashable
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.containers import BuiltinMethodVariable
from nbcompile.tracing.variables.mappings import DictVariable

READS = ("get", "keys", "values", "items", "copy")


class MappingProxyVariable(VariableTracker):
    """A read-only view of a dict."""

    def __init__(self, mapping: DictVariable, source: Source | None = None) -> None:
        self.mapping = mapping
        self.source = source

    def python_type(self) -> type:
        return types.MappingProxyType

    def describe(self) -> str:
        return f"MappingProxyVariable({self.mapping.describe()})"

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name in READS:
            return BuiltinMethodVariable(self.mapping, name)
        return super().get_attribute(tracer, name)

    def hash_key(self, tracer: Tracer) -> Hashable:
        # From Python 3.12 on its hash is that of the dict behind it, whose error names the class of the dict.
        return super().hash_key(tracer) if self.is_unhashable() else self.mapping.hash_key(tracer)

    def get_item(self, tracer: Tracer, key: VariableTracker) -> VariableTracker:
        return self.mapping.get_item(tracer, key)

    def contains(self, tracer: Tracer, item: VariableTracker) -> bool:
        return self.mapping.contains(tracer, item)

    def iterate(self, tracer: Tracer) -> VariableTracker:
        return self.mapping.iterate(tracer)

    def length(self, tracer: Tracer) -> VariableTracker:
        return self.mapping.length(tracer)

    def truth(self, tracer: Tracer) -> bool:
        return self.mapping.truth(tracer)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        # A proxy from outside is returned as the same object, not as a new view of the same dict.
        if self.source is not None:
            return super().recipe(reconstruction)
        return Call(Constant(types.MappingProxyType, "MappingProxyType"), (reconstruction.recipe(self.mapping),))


class ClassDictVariable(VariableTracker):
    """The ``__dict__`` of a class: each entry that is read is guarded."""

    def __init__(self, cls: type, source: Source) -> None:
        self.cls = cls
        self.source = self.address = source

    def python_type(self) -> type:
        return types.MappingProxyType

    def describe(self) -> str:
        return f"MappingProxyVariable({self.cls.__name__}.__dict__)"

    def hash_key(self, tracer: Tracer) -> Hashable:
        raise Unhashable(f"unhashable type: '{'mappingproxy' if self.is_unhashable() else 'dict'}'")

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        return BuiltinMethodVariable(self, name) if name == "get" else super().get_attribute(tracer, name)

    def get_item(self, tracer: Tracer, key: VariableTracker) -> VariableTracker:
        found = self._entry(tracer, key)
        if found is None:
            tracer.raise_exception(KeyError, key.constant())
        return found

    def contains(self, tracer: Tracer, item: VariableTracker) -> bool:
        return self._entry(tracer, item) is not None

    def call_method(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        if name == "get" and not keywords and len(arguments) in (1, 2) and arguments[0].is_constant():
            missing = arguments[1] if len(arguments) == 2 else ConstantVariable(None)
            return self._entry(tracer, arguments[0]) or missing
        return super().call_method(tracer, name, arguments, keywords)

    def _entry(self, tracer: Tracer, key: VariableTracker) -> VariableTracker | None:
        name = key.constant() if key.is_constant() else None
        if not isinstance(name, str):
            self.no_method("__getitem__")
        stored = tracer.side_effects.attribute_of(self.cls, name)
        if stored is not None:
            return stored
        members = self.cls.__dict__
        tracer.guard(self.address, GuardKind.DICT_CONTAINS, (name, name in members))
        return tracer.wrap(members[name], ItemSource(self.address, name)) if name in members else None


class StaticMethodVariable(VariableTracker):
    """A ``staticmethod`` or ``classmethod`` object, from the dict of a class."""

    def __init__(
        self, value: staticmethod[..., object] | classmethod[object, ..., object], source: Source | None
    ) -> None:
        self.value = value
        self.source = source

    def python_type(self) -> type:
        return type(self.value)

    def describe(self) -> str:
        return f"{type(self.value).__name__}({self.value.__func__})"

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name in ("__func__", "__wrapped__"):
            below = None if self.source is None else AttrSource(self.source, "__func__")
            return tracer.wrap(self.value.__func__, below)
        return super().get_attribute(tracer, name)

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        if isinstance(self.value, classmethod):
            tracer.raise_exception(TypeError, "'classmethod' object is not callable")
        return tracer.call(self.get_attribute(tracer, "__func__"), arguments, keywords)
