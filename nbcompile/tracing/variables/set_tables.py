"""The order of a set, by a real set to which all operations on the traced one are applied.

    a = {1, 9}; a ^= {1.0, 2}    SetTable({1, 9})    change("symmetric_difference_update", ...)    keys: {2, 9}

The iteration order of a set depends on the history of its hash table: how often it grew, and which slots removed
members have left. So the members do not determine the order. The table has the keys of the trackers; a key whose hash
is not that of the program's value (an object created while tracing) has no position in it, and such a set has no table.

In torch: nothing (torch/_dynamo/variables/sets.py iterates in the order of insertion). Read next: mappings.py
"""

from __future__ import annotations

import types
from collections.abc import Collection, Hashable, Iterable
from typing import Any

from nbcompile.capture.source import Source
from nbcompile.tracing.variables.base import VariableTracker

HASHED_BY_VALUE = (int, float, complex, str, bytes)
"""Keys with the hash of the value itself, though its tracker may be no constant: a number that was a symbol."""
HASHED_BY_IDENTITY = (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, types.ModuleType)


class SetTable:
    """The keys of a set, or of another operand, in a real set; and the sets from outside on which it depends."""

    __slots__ = ("borrowed", "derived", "keys", "sources")

    def __init__(
        self, keys: Any, sources: tuple[Source, ...] = (), borrowed: bool = False, derived: bool = True
    ) -> None:
        self.keys = keys
        """A set or frozenset; for an operand also a dict or a list; None: the order is unknown."""
        self.sources = sources
        """Sources of the sets from outside on whose order this order depends."""
        self.borrowed = borrowed
        """True if ``keys`` is a set of the program itself, whose results have the exact order; it is never changed."""
        self.derived = derived
        """True if the order depends on the sizes of their hash tables, too: the keys were combined or changed."""

    def order(self) -> list[Any]:
        """The keys in CPython's iteration order, without an ``__iter__`` of the class of the set."""
        return list(_base(self.keys).__iter__(self.keys))

    def discard(self, key: Hashable) -> None:
        """Call ``discard``, which ignores a missing key."""
        self._own()
        if self.keys is not None:
            self.keys.discard(key)

    def pop(self) -> Any:
        """Call ``pop``."""
        self._own()
        return self.keys.pop()

    def _own(self) -> None:
        # Copy on write: a borrowed set is the program's, and tracing must not change it.
        if self.borrowed:
            self.keys, self.borrowed = _clone(self.keys), False
        self.derived = True

    def is_reached(self, real: set[Any], steps: Iterable[tuple[str, list[Hashable]]]) -> bool:
        """Return whether a set of the program has this order after calls of these methods with keys."""
        if self.keys is None:
            return True
        changed = _clone(real)
        for method, keys in steps:
            getattr(changed, method)(keys)
        return list(changed) == self.order()

    def copy(self, cls: type) -> SetTable:
        """Another set of the same keys."""
        return SetTable(None if self.keys is None else cls(self.keys), self.sources)

    def change(self, method: str, *others: SetTable) -> None:
        """Call a method of ``set`` that changes it."""
        self._own()
        self._note(others)
        if self.keys is not None:
            getattr(self.keys, method)(*(other.keys for other in others))

    def combined(self, method: str, others: Iterable[SetTable], cls: type) -> SetTable:
        """The result of a method of ``set`` that creates a new one, as a set of that class."""
        result = SetTable(self.keys, self.sources)
        result._note(given := list(others))
        if result.keys is not None:
            # The method of the built-in type: a subclass may override it.
            keys = getattr(_base(result.keys), method)(result.keys, *(other.keys for other in given))
            result.keys = keys if type(keys) is cls else cls(keys)
        return result

    def _note(self, others: Iterable[SetTable]) -> None:
        for other in others:
            self.sources += tuple(source for source in other.sources if source not in self.sources)
            if other.keys is None:
                self.keys = None


def table_of_real(value: Collection[object], source: Source | None) -> SetTable:
    """The table of a set or frozenset of the program."""
    sources = () if source is None or len(value) < 2 else (source,)
    return SetTable(value, sources, borrowed=True, derived=False)


def _base(keys: Any) -> Any:
    return next((cls for cls in (set, frozenset) if isinstance(keys, cls)), type(keys))


def _clone(value: set[Any]) -> set[Any]:
    """A set with a table as large as another's: a copy often has a smaller one, as CPython allocates only for the
    members of the original. After many removals no new set has an equal table.
    """
    order = list(set.__iter__(value))
    added: set[Any] = set()
    for key in order:
        added.add(key)
    size = set.__sizeof__(value) - type(value).__basicsize__
    for candidate in (set(value), added):
        if list(candidate) == order and set.__sizeof__(candidate) - set.__basicsize__ == size:
            return candidate
    return added


def table_of(cls: type, pairs: Iterable[tuple[Hashable, VariableTracker]]) -> SetTable:
    """The table of a set to which keys were added one by one; ``cls`` is ``list`` for other iterables."""
    found = list(pairs)
    return SetTable(cls(key for key, _ in found) if all(is_hashed_alike(*pair) for pair in found) else None)


def is_class_key(key: object) -> bool:
    """Return whether a key is a class that dicts look up by identity, for any metaclass."""
    return isinstance(key, type) and type(key).__hash__ is type.__hash__ and type(key).__eq__ is type.__eq__


def is_hashed_alike(key: Hashable, tracker: VariableTracker) -> bool:
    """Return whether a tracker's key has the hash of its value in the program."""
    return tracker.is_constant() or isinstance(key, (*HASHED_BY_VALUE, *HASHED_BY_IDENTITY)) or is_class_key(key)
