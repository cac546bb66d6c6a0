"""Sets and frozensets: items by their hashes in the program, in the order of CPython's hash table.

    s = {1, True, "a"}     two members: 1 and True are one key
    s | keys of a dict      reuses the hashes that the dict stores

In torch: torch/_dynamo/variables/dicts.py (``SetVariable``). Read next:
nbcompile/tracing/variables/set_tables.py
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Container, Hashable, Iterable, Mapping, Sequence
from typing import Any

from nbcompile.capture.recipe import Build, Call, Constant, Recipe
from nbcompile.capture.source import Source
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.containers import ContainerVariable
from nbcompile.tracing.variables.iterators import WatchingIteratorVariable
from nbcompile.tracing.variables.keys import TracedKey
from nbcompile.tracing.variables.mappings import DictVariable, hashed_entries
from nbcompile.tracing.variables.sequences import TupleVariable
from nbcompile.tracing.variables.set_tables import HASHED_BY_VALUE, SetTable, table_of, table_of_real

HASHED_AS_THEY_ARE = (TracedKey, *HASHED_BY_VALUE)
"""Classes of keys with the hash that the value has in the program."""


class SetVariable(ContainerVariable):
    """A set or frozenset."""

    cls: type = set

    def __init__(
        self,
        tracer: Tracer,
        items: Iterable[VariableTracker],
        source: Source | None = None,
        cls: type = set,
        table: SetTable | None = None,
        members: Mapping[Hashable, VariableTracker] | None = None,
    ) -> None:
        # The first of equal items is used, as in Python.
        self.members: dict[Hashable, VariableTracker] = dict(members or {})
        for item in items:
            self.members.setdefault(item.hash_key(tracer), item)
        self.source = source
        self.cls = cls
        self.table = table or table_of(set if issubclass(cls, set) else frozenset, self.members.items())
        """The table of CPython's set, which determines the order of the members."""
        self.before: dict[Hashable, VariableTracker] | None = None
        """The members of a set from outside when the frame was entered."""

    def describe(self) -> str:
        return f"SetVariable(length={len(self.members)})"

    def is_constant(self) -> bool:
        return self.cls is frozenset and all(item.is_constant() for item in self.members.values())

    def constant(self) -> object:
        return frozenset(item.constant() for item in self.members.values())

    def hash_key(self, tracer: Tracer) -> Hashable:
        return frozenset(self.members) if self.cls is frozenset else super().hash_key(tracer)

    def unpack(self, tracer: Tracer) -> list[VariableTracker]:
        # The order of a set depends on hashes; hashes of strings depend on the process (PYTHONHASHSEED),
        # those of objects on addresses.
        if len(self.members) > 1:
            tracer.depend_on_process("the order of a set")
        if self.table.keys is not None:
            for source in self.table.sources:
                tracer.guard_order(source, self.table.derived)
            return [self.members[key] for key in self.table.order()]
        if all(item.is_constant() or isinstance(key, HASHED_AS_THEY_ARE) for key, item in self.members.items()):
            return [self.members[key] for key in set(self.members)]
        return list(self.members.values())

    def to_build(self) -> list[VariableTracker]:
        """The items in an order such that a new set of them has the order of this one, if there is one."""
        inserted = list(self.members)
        # Preferred, since it is valid in a process with other hashes, too.
        if self.table.keys is None or list(set(inserted)) == self.table.order():
            return list(self.members.values())
        return [self.members[key] for key in self.table.order()]

    def steps(self, tracer: Tracer) -> list[tuple[str, list[VariableTracker]]] | None:
        """Methods and items that change the set from outside to this one, if they result in the same order."""
        if self.before is None or self.source is None:
            return None
        removed = {key: item for key, item in self.before.items() if self.members.get(key) is not item}
        added = {key: item for key, item in self.members.items() if self.before.get(key) is not item}
        if not all(item.is_constant() for item in removed.values()):
            return None  # the residual program would keep removed items alive
        real: set[Any] = tracer.real_value(self.source)  # type: ignore[assignment]
        steps = [("difference_update", removed), ("update", added)]
        for tried in [steps] if removed.keys() & added.keys() else [steps, steps[::-1]]:
            if self.table.is_reached(real, [(method, list(items)) for method, items in tried]):
                return [(method, list(items.values())) for method, items in tried if items]
        return None

    def iterate(self, tracer: Tracer) -> VariableTracker:
        items, cls = TupleVariable(self.unpack(tracer)), type(iter(frozenset[object]()))
        message = "Set changed size during iteration"
        iterator = WatchingIteratorVariable(self, items, cls, lambda: len(self.members), message)
        return iterator.watching(lambda: frozenset(self.members))

    def contains(self, tracer: Tracer, item: VariableTracker) -> bool:
        return _sought(tracer, item) in self.members

    def length(self, tracer: Tracer) -> VariableTracker:
        return ConstantVariable(len(self.members))

    def truth(self, tracer: Tracer) -> bool:
        return bool(self.members)

    def method___init__(self, tracer: Tracer, items: VariableTracker | None = None) -> None:
        # A frozenset was filled when it was created.
        if not issubclass(self.cls, set):
            return  # ``object.__init__``
        if self.members:
            self.method_clear(tracer)
        if items is not None:
            self.method_update(tracer, items)

    def method_add(self, tracer: Tracer, item: VariableTracker) -> None:
        self.mark_mutated(tracer)
        key = item.hash_key(tracer)
        self.members.setdefault(key, item)
        self.table.change("update", table_of(list, [(key, item)]))

    def method_discard(self, tracer: Tracer, item: VariableTracker) -> None:
        self.mark_mutated(tracer)
        key = _sought(tracer, item)
        if self.members.pop(key, None) is not None:
            self.table.discard(key)

    def method_remove(self, tracer: Tracer, item: VariableTracker) -> None:
        if _sought(tracer, item) not in self.members:
            tracer.raise_exception(KeyError, item)
        self.method_discard(tracer, item)

    def method_pop(self, tracer: Tracer) -> VariableTracker:
        if not self.members:
            tracer.raise_exception(KeyError, "pop from an empty set")
        item = self.unpack(tracer)[0]
        if self.table.keys is None:
            self.method_discard(tracer, item)
            return item
        # CPython starts its search where the last ``pop`` found a member.
        self.mark_mutated(tracer)
        return self.members.pop(self.table.pop())

    def method_clear(self, tracer: Tracer) -> None:
        self.mark_mutated(tracer)
        self.members.clear()
        self.table = table_of(set, ())

    def method_copy(self, tracer: Tracer) -> VariableTracker:
        # For a frozenset Python returns the object itself.
        if self.cls is frozenset:
            return self
        base = set if issubclass(self.cls, set) else frozenset
        return self.like(tracer, self.members, self.table.copy(base))

    def like(
        self, tracer: Tracer, members: Mapping[Hashable, VariableTracker], table: SetTable | None = None
    ) -> SetVariable:
        """A new set as created by this one's methods in C: never of a subclass."""
        base = set if issubclass(self.cls, set) else frozenset
        return SetVariable(tracer, [], cls=base, table=table, members=members)

    def method_update(self, tracer: Tracer, *others: VariableTracker) -> None:
        self.mark_mutated(tracer)
        for other in others:
            items = hashed_items(tracer, other)
            for key, item in items:
                self.members.setdefault(key, item)
            self.table.change("update", _operand(other, items))

    def combine(self, tracer: Tracer, operation: str, others: Sequence[VariableTracker]) -> SetVariable:
        """``union``, ``intersection``, ``difference`` or ``symmetric_difference``."""
        members, operands = self._combined(tracer, operation, others)
        base = set if issubclass(self.cls, set) else frozenset
        return self.like(tracer, members, self.table.combined(operation, operands, base))

    def _combined(
        self, tracer: Tracer, operation: str, others: Sequence[VariableTracker]
    ) -> tuple[dict[Hashable, VariableTracker], list[SetTable]]:
        mine = dict(self.members)
        operands: list[SetTable] = []
        for other in others:
            items = hashed_items(tracer, other, rehashes=operation == "intersection")
            operands.append(_operand(other, items))
            theirs: dict[Hashable, VariableTracker] = {}
            for key, item in items:  # the first of equal items is kept
                theirs.setdefault(key, item)
            match operation:
                case "union":
                    mine = {**mine, **_without(theirs, mine)}
                case "intersection":
                    # CPython iterates over the smaller set, and over any other iterable: of equal items it keeps those.
                    iterates_mine = isinstance(built_in_set(other), SetVariable) and len(theirs) > len(mine)
                    iterated, searched = (mine, theirs) if iterates_mine else (theirs, mine)
                    mine = {key: item for key, item in iterated.items() if key in searched}
                case "difference":
                    mine = _without(mine, theirs)
                case _:
                    mine = {**_without(theirs, mine), **_without(mine, theirs)}
        return mine, operands

    def method_union(self, tracer: Tracer, *others: VariableTracker) -> VariableTracker:
        return self.combine(tracer, "union", others)

    def method_intersection(self, tracer: Tracer, *others: VariableTracker) -> VariableTracker:
        return self.combine(tracer, "intersection", others)

    def method_difference(self, tracer: Tracer, *others: VariableTracker) -> VariableTracker:
        return self.combine(tracer, "difference", others)

    def method_symmetric_difference(self, tracer: Tracer, other: VariableTracker) -> VariableTracker:
        return self.combine(tracer, "symmetric_difference", [other])

    def _become(self, tracer: Tracer, operation: str, others: Sequence[VariableTracker]) -> None:
        members, operands = self._combined(tracer, operation, others)
        self.mark_mutated(tracer)
        self.members = members
        self.table.change(f"{operation}_update", *operands)

    def method_difference_update(self, tracer: Tracer, *others: VariableTracker) -> None:
        self._become(tracer, "difference", others)

    def method_intersection_update(self, tracer: Tracer, *others: VariableTracker) -> None:
        self._become(tracer, "intersection", others)

    def method_symmetric_difference_update(self, tracer: Tracer, other: VariableTracker) -> None:
        self.mark_mutated(tracer)
        items = hashed_items(tracer, other)
        theirs = dict(reversed(items))  # the first of equal items is kept
        for key, item in theirs.items():
            if self.members.pop(key, None) is None:
                self.members[key] = item
        self.table.change("symmetric_difference_update", _operand(other, items))

    def method_issubset(self, tracer: Tracer, other: VariableTracker) -> VariableTracker:
        # From Python 3.12 on it intersects with values that are no sets, and hashes each item, also the keys of a dict.
        rehashes = sys.version_info >= (3, 12)
        theirs = {key for key, _ in hashed_items(tracer, other, rehashes=rehashes)}
        return ConstantVariable(self.members.keys() <= theirs)

    def method_issuperset(self, tracer: Tracer, other: VariableTracker) -> VariableTracker:
        return ConstantVariable(self.members.keys() >= {key for key, _ in hashed_items(tracer, other)})

    def method___reduce_ex__(self, tracer: Tracer, protocol: VariableTracker) -> VariableTracker:
        """Arguments by which ``copy.deepcopy`` reconstructs it."""
        return TupleVariable([tracer.wrap(self.cls, None), TupleVariable([tracer.list_of(self.unpack(tracer))])])

    def method_isdisjoint(self, tracer: Tracer, other: VariableTracker) -> VariableTracker:
        # Unlike the other methods it calls ``iter`` on a set of a subclass.
        if isinstance(other, SetVariable):
            return ConstantVariable(self.members.keys().isdisjoint(other.members))
        return ConstantVariable(self.members.keys().isdisjoint(item.hash_key(tracer) for item in other.unpack(tracer)))

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return super().recipe(reconstruction)
        return reconstruction.shared(self, lambda: self._build(reconstruction))

    def _build(self, reconstruction: Reconstructor) -> Recipe:
        items = tuple(reconstruction.recipe(item) for item in self.to_build())
        if self.cls is set and items:
            return Build("set", items)
        return Call(Constant(self.cls, self.cls.__name__), (Build("list", items),))


def built_in_set(value: VariableTracker) -> VariableTracker:
    """The built-in part of an object of a subclass of set; any other value itself."""
    part = getattr(value, "base_items", None)
    return part if isinstance(part, SetVariable) else value


def items_for_set(tracer: Tracer, value: VariableTracker) -> list[VariableTracker]:
    """The items that a set reads from a value: from another set directly, without an ``__iter__`` of its class."""
    part = built_in_set(value)
    return list(part.members.values()) if isinstance(part, SetVariable) else part.unpack(tracer)


def hashed_items(
    tracer: Tracer, value: VariableTracker, *, rehashes: bool = False
) -> list[tuple[Hashable, VariableTracker]]:
    """The items that a set reads, with their hashes: sets, and most methods of a dict's keys, reuse those."""
    part = built_in_set(value)
    if isinstance(part, SetVariable):
        return list(part.members.items())
    entries = None if rehashes else hashed_entries(tracer, part)
    if entries is not None:
        return [(hashed, key) for hashed, (key, _) in entries]
    return [(item.hash_key(tracer), item) for item in part.unpack(tracer)]


def set_of_value(
    tracer: Tracer, items: Iterable[VariableTracker], value: Collection[object], source: Source | None = None
) -> SetVariable:
    """The tracker of a real set or frozenset with these items."""
    tracker = SetVariable(tracer, items, source, type(value))
    tracker.before = dict(tracker.members)
    if tracker.table.keys is not None and tracker.table.keys == value:
        tracker.table = table_of_real(value, source)
    return tracker


def set_from(tracer: Tracer, cls: type, value: VariableTracker) -> SetVariable:
    """``set(value)`` or ``frozenset(value)``."""
    items = hashed_items(tracer, value)
    operand = _operand(value, items)
    table = SetTable(None if operand.keys is None else cls(operand.keys), operand.sources)
    members: dict[Hashable, VariableTracker] = {}
    for key, item in items:  # the first of equal items is kept
        members.setdefault(key, item)
    return SetVariable(tracer, [], cls=cls, table=table, members=members)


def _operand(value: VariableTracker, items: Sequence[tuple[Hashable, VariableTracker]]) -> SetTable:
    """The table of an argument of a set's method: CPython allocates for a set or a dict before it adds items."""
    part = built_in_set(value)
    if isinstance(part, SetVariable):
        return part.table
    listed = table_of(list, items)
    if isinstance(part, DictVariable) and part.cls is dict and listed.keys is not None:
        listed.keys = dict.fromkeys(listed.keys)
    return listed


def _sought(tracer: Tracer, item: VariableTracker) -> Hashable:
    """The key by which a set looks up an item: for a set, which is unhashable, that of an equal frozenset."""
    part = built_in_set(item)
    if isinstance(part, SetVariable) and issubclass(part.cls, set) and item.is_unhashable():
        return frozenset(part.members)
    return item.hash_key(tracer)


def _without(items: Mapping[Hashable, VariableTracker], others: Container[Hashable]) -> dict[Hashable, VariableTracker]:
    return {key: item for key, item in items.items() if key not in others}
