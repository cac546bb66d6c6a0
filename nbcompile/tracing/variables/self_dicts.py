"""Dicts that are their own ``__dict__``: items and attributes are the same entries.

    class Settings(dict):
        def __init__(self, **given):
            super().__init__(given)
            self.__dict__ = self

    s.rate = 5; s["rate"]      5

An assignment to an attribute is recorded as one of an item, and attributes are read from changed items.

In torch: nothing; it reads the old value. Read next: objects.py
"""

from __future__ import annotations

from typing import NoReturn

from nbcompile.support.real_class import is_instance
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.lookup import class_lookup, instance_dict, is_data_descriptor
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.objects import ObjectVariable


def is_own_dict(value: object) -> bool:
    """True for a dict that is its own ``__dict__``."""
    return is_instance(value, dict) and bool(type(value).__dictoffset__) and instance_dict(value) is value


class SelfDictVariable(ObjectVariable):
    """A dict that is its own ``__dict__``."""

    has_fixed_class = True

    def _items(self) -> DictVariable:
        assert isinstance(self.base_items, DictVariable)
        return self.base_items

    def _instance_attribute(self, tracer: Tracer, name: str) -> VariableTracker | None:
        items = self._items()
        if not items.changed:
            return super()._instance_attribute(tracer, name)
        key = ConstantVariable(name)
        return items.get_item(tracer, key) if items.contains(tracer, key) else None

    def _dict(self, tracer: Tracer) -> VariableTracker:
        return self

    def _not_shadowed(self, tracer: Tracer, name: str) -> None:
        if not self._items().changed:  # a change has guarded all keys
            super()._not_shadowed(tracer, name)

    def missing(self, tracer: Tracer, name: str) -> NoReturn:
        if self._items().changed:
            tracer.raise_exception(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")
        super().missing(tracer, name)

    def _store(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        if is_data_descriptor(class_lookup(self.cls, name)):  # a slot
            super()._store(tracer, name, value)
            return
        self._items().set_item(tracer, ConstantVariable(name), value)

    def _remove(self, tracer: Tracer, name: str) -> None:
        if is_data_descriptor(class_lookup(self.cls, name)):
            super()._remove(tracer, name)
            return
        self._items().delete_item(tracer, ConstantVariable(name))
