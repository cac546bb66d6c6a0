"""Sources as data: one table, in which each step names the one before it by its number.

    L['self']._modules['l']      0: ["LocalSource", "self"]
                                 1: ["AttrSource", 0, "_modules"]
                                 2: ["ItemSource", 1, "l"]

With each is the class of the value there: torch's guard tree goes another way through another class, so an
entry is good only where the classes along the way are those that were traced.

In torch: nothing. Read next: nbcompile/fast/disk_cache/stored_guards.py
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
from collections.abc import Sequence
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from nbcompile.capture import source as addresses
from nbcompile.capture.literals import NotStorable, Unreadable, decode, encode
from nbcompile.capture.source import ConstantSource, ModuleSource, Source
from nbcompile.fast import dynamo_stub
from nbcompile.fast.disk_cache.descriptions import Description, alike, describe, tensor_facts
from nbcompile.fast.disk_cache.object_lookup import find, findable
from nbcompile.guarding.accessors import SourceCache
from nbcompile.support.real_class import is_instance

_KINDS: dict[str, type[Any]] = {
    member.__name__: member
    for member in vars(addresses).values()
    if isinstance(member, type) and issubclass(member, addresses.Address) and member is not addresses.Address
}


POLYFILLS = "nbcompile.tracing.polyfills."
"""Modules of our own through which a trace went, and which nothing else of a second process imports; each is small."""


class SourceWriter:
    """Writer of the table of sources of an entry."""

    def __init__(self, known: SourceCache) -> None:
        self.known = known
        self.table: list[list[Any]] = []
        self.classes: list[Description] = []
        """The class of the value at each address, as its index in ``kinds``."""
        self.kinds: list[Description] = []
        self._numbers: dict[Source, int] = {}
        self._seen: dict[type, int] = {}

    def number_of(self, source: Source) -> int:
        """The number of a source in the table.

        Raises:
            NotStorable: it leads through an object that only this process has.
        """
        found = self._numbers.get(source)
        if found is not None:
            return found
        if isinstance(source, ConstantSource):
            raise NotStorable(f"the program refers to an object of this process ({source.name})")
        row: list[Any] = [type(source).__name__]
        for field in dataclasses.fields(source):
            value = getattr(source, field.name)
            # A source is stored as a row with the number of its base, so that common prefixes are
            # stored once, before it.
            #     0  LocalSource "self"
            #     1  AttrSource 0 "layer"
            #     2  AttrSource 1 "weight"
            row.append(self.number_of(value) if field.name == "base" else self.key(value))
        # The class at each address is stored too: what an address leads to decides how it is read.
        kind = self._class_of(self.known.value(source))
        self.table.append([*row, kind])
        self._numbers[source] = len(self.table) - 1
        return self._numbers[source]

    def key(self, key: object) -> Any:
        """A key of a dict: a literal, a class or function by name, or a class by a value of the frame.

        Raises:
            NotStorable: another process would not know which class it is.
        """
        if is_instance(key, FunctionType | BuiltinFunctionType):
            return ["named", findable(key)]
        if not is_instance(key, type):
            return encode(key)
        with contextlib.suppress(NotStorable):
            return ["named", findable(key)]
        number = self._seen.get(key)
        for index, (*_, kind) in enumerate(self.table):
            if kind == number:
                return ["class of", index]
        raise NotStorable(f"{key.__qualname__} is a key, and has no name of its own")

    def describe(self, value: object) -> Description:
        """An object in words that are the same in every process that has an equal one."""
        return describe(value)

    def tensor_facts(self, source: Source) -> list[Any]:
        """Class, dtype, device and keys of the tensor at a source."""
        tensor: Any = self.known.value(source)
        return tensor_facts(tensor)

    def _class_of(self, value: object) -> int:
        cls = _module_class(value) if is_instance(value, ModuleType) else type(value)
        if cls not in self._seen:
            self.kinds.append(describe(cls))
            self._seen[cls] = len(self.kinds) - 1
        return self._seen[cls]

    def data(self) -> dict[str, Any]:
        """The table as JSON."""
        return {"table": self.table, "kinds": self.kinds}


def read(data: dict[str, Any], known: SourceCache, absent: set[Source] | None = None) -> list[Source]:
    """Read the sources, in the process and the frame that ``known`` knows.

    Args:
        data: the table.
        known: of the frame.
        absent: takes those that do not exist yet; None: there may be none.

    Raises:
        Unreadable: some value is of another class here, or not there at all.
    """
    kinds, seen = data["kinds"], {}
    sources: list[Source] = []
    for name, *parts, kind in data["table"]:
        cls = _KINDS[name]
        if cls is ModuleSource and str(parts[0]).startswith(POLYFILLS):
            importlib.import_module(str(parts[0]))
        names = [each.name for each in dataclasses.fields(cls)]
        values = [
            sources[part] if field == "base" else read_key(part, sources, known)
            for field, part in zip(names, parts, strict=True)
        ]
        source: Source = cls(*values)
        sources.append(source)
        try:
            # From the base outwards, so that a wrong class is found before something is read from it.
            value = known.value(source)
            here = _module_class(value) if isinstance(value, ModuleType) else type(value)
        except Exception as error:
            if absent is None:
                raise Unreadable(f"{known_text(source)} leads nowhere") from error
            absent.add(source)
            continue
        if here not in seen:
            seen[here] = _described(here)
        if not alike(seen[here], kinds[kind]):
            raise Unreadable(f"{known_text(source)} is a {here.__qualname__}")
    return sources


def read_key(data: Any, sources: Sequence[Source], known: SourceCache) -> object:
    """The key that :meth:`SourceWriter.key` wrote.

    Raises:
        Unreadable: there is no such class or function here.
    """
    match data:
        case ["named", list(described)]:
            return find(described)
        case ["class of", int(number)]:
            return type(known.value(sources[number]))
    return decode(data)


def _module_class(module: ModuleType) -> type:
    """The class of a module; a stub of torch's compiler counts as the module that it becomes at its first use."""
    cls = type(module)
    return ModuleType if cls.__module__ == dynamo_stub.__name__ else cls


def known_text(source: Source) -> str:
    """A source as an expression."""
    return addresses.expression(source)


def _described(cls: type) -> Description | None:
    try:
        return describe(cls)
    except NotStorable:
        return None
