"""The methods of ``types.SimpleNamespace``, written in Python.

    SimpleNamespace(a=1)     entries of the object's ``__dict__``, which no ``__setattr__`` of a subclass sees
    repr(SimpleNamespace())  "namespace()", and the name of the class for a subclass

In torch: nothing; Objects/namespaceobject.c of CPython. Read next: nbcompile/tracing/variables/objects.py
"""

# Nothing here runs by itself: the tracer reads the bytecode.
from __future__ import annotations

import sys
import types
from typing import Any


def initialise(namespace: Any, /, *positional: Any, **attributes: Any) -> None:
    """``SimpleNamespace.__init__`` before Python 3.13."""
    if positional:
        raise TypeError("no positional arguments expected")
    namespace.__dict__.update(attributes)


def initialise_from_mapping(namespace: Any, /, *positional: Any, **attributes: Any) -> None:
    """``SimpleNamespace.__init__`` since Python 3.13: a mapping, or an iterable of pairs, may come first."""
    if len(positional) > 1:
        raise TypeError(f"{type(namespace).__name__} expected at most 1 argument, got {len(positional)}")
    if positional:
        given = dict(positional[0])
        for name in given:
            if not isinstance(name, str):
                raise TypeError("keywords must be strings")
        namespace.__dict__.update(given)
    namespace.__dict__.update(attributes)


def is_equal(namespace: Any, other: Any) -> Any:
    """``SimpleNamespace.__eq__``."""
    if not issubclass(type(other), types.SimpleNamespace):
        return NotImplemented
    return namespace.__dict__ == other.__dict__


def is_unequal(namespace: Any, other: Any) -> Any:
    """``SimpleNamespace.__ne__``."""
    if not issubclass(type(other), types.SimpleNamespace):
        return NotImplemented
    return namespace.__dict__ != other.__dict__


def text(namespace: Any) -> str:
    """``SimpleNamespace.__repr__``."""
    name = "namespace" if type(namespace) is types.SimpleNamespace else type(namespace).__name__
    items = [f"{key}={value!r}" for key, value in namespace.__dict__.items() if isinstance(key, str) and key]
    return f"{name}({', '.join(items)})"


def reduced(namespace: Any) -> tuple[Any, ...]:
    """``SimpleNamespace.__reduce__``: the state is the namespace's own dict."""
    return type(namespace), (), namespace.__dict__


METHODS: dict[str, Any] = {
    "__init__": initialise if sys.version_info < (3, 13) else initialise_from_mapping,
    "__eq__": is_equal,
    "__ne__": is_unequal,
    "__repr__": text,
    "__reduce__": reduced,
}
