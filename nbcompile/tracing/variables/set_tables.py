"""The order of a set: a set of CPython's own goes through all that the traced one goes through.

    a = {1, 9}; a ^= {1.0, 2}    SetTable({1, 9})    change("symmetric_difference_update", ...)    keys: {2, 9}

In which order a set is iterated over depends on the history of its table: how often it grew, and which places were
left by members that are gone. So no order can be calculated from the members alone. The table holds the keys by which
trackers are found; a key whose hash is not the hash of the program's value (an object made while tracing) has no
place in it, and such a set has no table.

In torch: nothing (torch/_dynamo/variables/sets.py iterates in the order of insertion). Read next: mappings.py
"""

from __future__ import annotations

import types
from collections.abc import Hashable, Iterable
from typing import Any

from nbcompile.capture.source import Source
from nbcompile.tracing.variables.base import VariableTracker

HASHED_BY_VALUE = (int, float, complex, str, bytes)
"""Keys with the hash of the value itself, though its tracker may be no constant: a number that was a symbol."""
HASHED_BY_IDENTITY = (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, types.ModuleType)


class SetTable:
    """The keys of a set, or what is combined with one, as CPython has them; and the sets from outside it began with."""

    __slots__ = ("keys", "sources")

    def __init__(self, keys: Any, sources: tuple[Source, ...] = ()) -> None:
        self.keys = keys
        """A set or frozenset; of an operand also a dict or a list; None: the order cannot be known."""
        self.sources = sources
        """The order depends on that of these sets."""

    def copy(self, cls: type) -> SetTable:
        """Another set of the same keys."""
        return SetTable(None if self.keys is None else cls(self.keys), self.sources)

    def change(self, method: str, *others: SetTable) -> None:
        """Call a method of ``set`` that changes it."""
        self._note(others)
        if self.keys is not None:
            getattr(self.keys, method)(*(other.keys for other in others))

    def combined(self, method: str, others: Iterable[SetTable], cls: type) -> SetTable:
        """The result of a method of ``set`` that makes a new one, as a set of that class."""
        result = SetTable(self.keys, self.sources)
        result._note(given := list(others))
        if result.keys is not None:
            keys = getattr(result.keys, method)(*(other.keys for other in given))
            result.keys = keys if type(keys) is cls else cls(keys)
        return result

    def _note(self, others: Iterable[SetTable]) -> None:
        for other in others:
            self.sources += tuple(source for source in other.sources if source not in self.sources)
            if other.keys is None:
                self.keys = None


def table_of(cls: type, pairs: Iterable[tuple[Hashable, VariableTracker]]) -> SetTable:
    """The table of a set to which keys were added one by one; ``cls`` is ``list`` for other iterables."""
    found = list(pairs)
    return SetTable(cls(key for key, _ in found) if all(is_hashed_alike(*pair) for pair in found) else None)


def is_class_key(key: object) -> bool:
    """Return whether a key is a class that dicts look up by its identity, whatever its metaclass is."""
    return isinstance(key, type) and type(key).__hash__ is type.__hash__ and type(key).__eq__ is type.__eq__


def is_hashed_alike(key: Hashable, tracker: VariableTracker) -> bool:
    """Return whether the key by which a tracker is found has the hash that its value has in the program."""
    return tracker.is_constant() or isinstance(key, (*HASHED_BY_VALUE, *HASHED_BY_IDENTITY)) or is_class_key(key)
