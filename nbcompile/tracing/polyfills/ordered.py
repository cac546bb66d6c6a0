"""Methods of ``OrderedDict`` for a subclass: they store and read by the methods of the subclass, as CPython's do.

    class Loud(OrderedDict):
        def __setitem__(self, key, value): ...

    Loud(a=1)                 calls it; so do update(), setdefault(), copy() and |=

``dict`` calls none of them. What is removed (``pop``, ``popitem``, ``clear``) is removed without asking.

In torch: OrderedDict is not distinguished from dict there (torch/_dynamo/variables/dicts.py). Read next:
nbcompile/tracing/variables/objects.py
"""

# Nothing here runs by itself: the tracer reads the bytecode.
from __future__ import annotations

import collections
from collections.abc import Iterable
from typing import Any


def initialise(mapping: Any, /, *others: Any, **named: Any) -> None:
    """``OrderedDict.__init__``."""
    if len(others) > 1:
        raise TypeError(f"expected at most 1 arguments, got {len(others)}")
    update(mapping, *others, **named)


def update(mapping: Any, /, *others: Any, **named: Any) -> None:
    """``OrderedDict.update``."""
    if len(others) > 1:
        raise TypeError(f"update() takes at most 1 positional argument ({len(others)} given)")
    if others:
        store_all(mapping, others[0])
    for key, value in named.items():
        mapping[key] = value


def store_all(mapping: Any, other: Any) -> None:
    """Store what another mapping, or an iterable of pairs, holds."""
    if type(other) is dict:
        for key, value in other.items():
            mapping[key] = value
    elif hasattr(other, "keys"):
        for key in other.keys():  # noqa: SIM118 - its own method is asked
            mapping[key] = other[key]
    else:
        _store_pairs(mapping, other.items() if hasattr(other, "items") else other)


def _store_pairs(mapping: Any, pairs: Iterable[Any]) -> None:
    for pair in pairs:
        parts = list(pair)
        if len(parts) < 2:
            raise ValueError(f"need more than {len(parts)} value{'s' if not parts else ''} to unpack")
        if len(parts) > 2:
            raise ValueError("too many values to unpack (expected 2)")
        mapping[parts[0]] = parts[1]


def setdefault(mapping: Any, /, key: Any, default: Any = None) -> Any:
    """``OrderedDict.setdefault``."""
    if key in mapping:
        return mapping[key]
    mapping[key] = default
    return default


def copy(mapping: Any, /) -> Any:
    """``OrderedDict.copy``: the class is called."""
    result = type(mapping)()
    for key in collections.OrderedDict.__iter__(mapping):
        result[key] = mapping[key]
    return result


def updated(mapping: Any, other: Any, /) -> Any:
    """``OrderedDict.__ior__``."""
    store_all(mapping, other)
    return mapping


def union(cls: type, left: Any, right: Any) -> Any:
    """``left | right`` of an ``OrderedDict`` and another dict."""
    result = cls(left)
    store_all(result, right)
    return result


METHODS = {"__init__": initialise, "update": update, "setdefault": setdefault, "copy": copy, "__ior__": updated}
"""Methods of ``OrderedDict`` that call methods of the object's class."""
