"""Values of a call that a page has: what the guards of one code object read, each under the name that the page shows.

    values.of(source, "{}.dtype", ...)     "L['x'].dtype"       values.take(call)     {"L['x'].dtype": "torch.float32"}

In torch: nothing. Read next: nbcompile/guarding/encodings/page_trees.py
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import torch

from nbcompile.capture.resolution import Scope
from nbcompile.capture.source import Source, expression
from nbcompile.guarding.accessors import fetch
from nbcompile.guarding.prepared import ExpectedObject
from nbcompile.guarding.values import describe_value
from nbcompile.record import trees
from nbcompile.record.trees import Tree

Atom = int | float | bool | str | None
Reader = Callable[[Scope], Atom]


class ObjectNames:
    """Names of objects that guards compare by identity: ``Net``, ``Net #2``."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ExpectedObject, str]] = {}
        self._given: dict[str, int] = {}

    def assign(self, value: object) -> str:
        """The name of an expected object."""
        known = self._find(value)
        if known is not None:
            return known
        base = _base_name(value)
        number = self._given[base] = self._given.get(base, 0) + 1
        name = base if number == 1 else f"{base} #{number}"
        self._known[id(value)] = (ExpectedObject(value), name)
        return name

    def of(self, value: object) -> str:
        """The name of an object of a call: that of an expected object, or "another ..."."""
        return self._find(value) or f"another {_base_name(value)}"

    def _find(self, value: object) -> str | None:
        kept, name = self._known.get(id(value), (None, ""))
        # The address may belong to another object by now.
        return name if kept is not None and kept.get() is value else None


def _base_name(value: object) -> str:
    if isinstance(value, type | FunctionType | CodeType):
        return describe_value(value)
    return f"{type(value).__qualname__} object"


class PageValues:
    """Readers of values, by their names; every cache entry of a code object adds its own."""

    def __init__(self) -> None:
        self.names = ObjectNames()
        self._readers: dict[str, Reader] = {}
        self.sources: dict[str, Source] = {}
        """Sources of numbers and tensors, by their expressions."""

    def take(self, scope: Scope) -> dict[str, Atom]:
        """Read the values of a call; one that cannot be read is omitted, as the guards on it do not hold."""
        values: dict[str, Atom] = {}
        for name, reader in self._readers.items():
            # A guard on a value that cannot be read does not hold, and a missing value says just that.
            with contextlib.suppress(Exception):  # a source that cannot be resolved, or an error in user code
                values[name] = reader(scope)
        return values

    def read(self, name: str, reader: Reader) -> str:
        """Register the reader of a value; return the value's name."""
        self._readers.setdefault(name, reader)
        return name

    def of(self, source: Source, name: str, function: Callable[[Any], Atom]) -> str:
        """Register a function of the value at a source; ``name`` has ``{}`` for the source."""
        return self.read(name.format(expression(source)), lambda scope: _without_overrides(function, source, scope))

    def of_type(self, source: Source, cls: type) -> Tree:
        """Build the test that the value's class is this one."""
        return trees.same(self.of(source, "type({})", lambda value: self.names.of(type(value))), self.names.assign(cls))


def _without_overrides(function: Callable[[Any], Atom], source: Source, scope: Scope) -> Atom:
    """Evaluate without ``__torch_function__`` of a tensor subclass or a function mode."""
    with torch._C.DisableTorchFunction():
        return function(fetch(source, scope))
