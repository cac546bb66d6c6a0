"""Functions of ``operator`` that are no operators of the language, written in Python.

In torch: torch/_dynamo/polyfills/operator.py. Read next:
nbcompile/tracing/calls/library.py
"""

# Nothing here runs by itself: the tracer reads the bytecode.
from __future__ import annotations

import collections
from collections.abc import Callable, Iterable
from typing import Any

from nbcompile.tracing.polyfills.builtins import enumerate_


def delitem(container: Any, key: Any) -> None:
    """``operator.delitem``."""
    del container[key]


def concat(left: Any, right: Any) -> Any:
    """``operator.concat``: only sequences, although other values have a sum."""
    if not hasattr(left, "__getitem__"):
        raise TypeError(f"'{type(left).__name__}' object can't be concatenated")
    return left + right


def iconcat(left: Any, right: Any) -> Any:
    """``operator.iconcat``."""
    if not hasattr(left, "__getitem__"):
        raise TypeError(f"'{type(left).__name__}' object can't be concatenated")
    left += right
    return left


def count_of(items: Iterable[Any], target: Any) -> int:
    """``operator.countOf``."""
    count = 0
    for item in items:
        if item is target or item == target:
            count += 1
    return count


def index_of(items: Iterable[Any], target: Any) -> int:
    """``operator.indexOf``."""
    for index, item in enumerate_(items):
        if item is target or item == target:
            return index
    raise ValueError("sequence.index(x): x not in sequence")


def default_hint(default: Any = 0) -> Any:
    """The default of ``operator.length_hint``, which is checked before the length of the object is read."""
    if not isinstance(default, int):
        raise TypeError(f"'{type(default).__name__}' object cannot be interpreted as an integer")
    return default


def call(function: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Any:
    """``operator.call``."""
    return function(*arguments, **keywords)


def copied_deque(deque: Any, maxlen: int | None) -> Any:
    """``deque.copy()``: the class is called."""
    return type(deque)(deque) if maxlen is None else type(deque)(deque, maxlen)


def joined_deque(deque: Any, maxlen: int | None, other: Any) -> Any:
    """``deque + other``."""
    result = copied_deque(deque, maxlen)
    collections.deque.extend(result, other)
    return result


def repeated_deque(deque: Any, maxlen: int | None, count: Any) -> Any:
    """``deque * count``."""
    result = copied_deque(deque, maxlen)
    collections.deque.__imul__(result, count)
    return result
