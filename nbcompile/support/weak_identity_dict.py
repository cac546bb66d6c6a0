"""A dictionary with weak keys that are compared by identity: data about code objects.

Code objects compare (and hash) by content: a cell that runs twice makes two
equal ones, and one that keeps a dict among its constants has no hash at all.

    table = WeakIdentityDict()
    table[code] = "0/0"      table.get(equal_code) -> None

In torch: ExactWeakKeyDictionary in torch/_dynamo/utils.py. Read next:
nbcompile/dispatch/skipping.py
"""

from __future__ import annotations

import weakref
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class WeakIdentityDict(Generic[Key, Value]):
    """A dict with weak keys that are compared with ``is``."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ReferenceType[Key], Value]] = {}

    def get(self, key: Key, default: Value) -> Value:
        """The value of a key."""
        found = self._entries.get(id(key))
        # An id may be reused after its object was freed, so the object itself is compared, too.
        return found[1] if found is not None and found[0]() is key else default

    def __setitem__(self, key: Key, value: Value) -> None:
        address, entries = id(key), self._entries

        def forget(gone: weakref.ReferenceType[Key]) -> None:
            found = entries.get(address)
            if found is not None and found[0] is gone:
                del entries[address]

        entries[address] = (weakref.ref(key, forget), value)
