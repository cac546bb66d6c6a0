"""``math.fsum``, ``math.dist`` and ``math.sumprod`` of iterators and of objects with ``__float__``, written in Python.

    math.fsum(0.1 * i for i in range(9))     the generator is traced; the sum of the list is computed while tracing

Only the numbers are fetched here, in the order and with the errors of C: the sum stays C's own. Where all
numbers are known from the start, the call is folded, and nothing here is traced.

In torch: nothing; it breaks the graph. Read next: nbcompile/tracing/calls/library.py
"""

# Nothing here runs by itself: the tracer reads the bytecode.
from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

_LARGE = 1e290
"""No sum of smaller numbers overflows: there would have to be more than 1e18."""

_item, _length = tuple.__getitem__, tuple.__len__  # C reads the items of a tuple, whatever its class says


def fsum(numbers: Iterable[Any], /) -> float:
    """``math.fsum``."""
    floats: list[float] = []
    since_infinite: list[float] = []
    for number in numbers:
        value = _real(number)
        floats.append(value)
        if not math.isfinite(value):
            since_infinite = []
            continue
        since_infinite.append(value)
        if not -_LARGE < value < _LARGE:
            math.fsum(since_infinite)  # where it overflows, C reads no further
    return math.fsum(floats)


def dist(p: Iterable[Any], q: Iterable[Any], /) -> float:
    """``math.dist``."""
    start = p if isinstance(p, tuple) else tuple(p)
    end = q if isinstance(q, tuple) else tuple(q)
    if _length(start) != _length(end):
        raise ValueError("both points must have the same number of dimensions")
    starts, ends = [], []
    for index in range(_length(start)):
        starts.append(_real(_item(start, index)))
        ends.append(_real(_item(end, index)))
    return math.dist(starts, ends)


_END = object()
_EXACT = (int, float, bool)


def sumprod(p: Iterable[Any], q: Iterable[Any], /) -> Any:
    """``math.sumprod``."""
    starts, ends = [], []
    first, second = iter(p), iter(q)
    total = _END
    while True:
        start, end = next(first, _END), next(second, _END)  # C advances both before it checks which one has ended
        if start is _END and end is _END:
            return math.sumprod(starts, ends) if total is _END else total
        if start is _END or end is _END:
            raise ValueError("Inputs are not the same length")
        if total is _END and type(start) in _EXACT and type(end) in _EXACT:
            starts.append(start)
            ends.append(end)
            continue
        # From the first other object on C adds product by product, without its more exact sum of floats.
        if total is _END:
            total = math.sumprod(starts, ends)
        total = total + start * end


def _real(number: Any) -> float:
    """Convert a number as C's ``PyFloat_AsDouble`` does."""
    if isinstance(number, float):
        value = float.__pos__(number)
    elif hasattr(type(number), "__float__") or hasattr(type(number), "__index__"):
        value = float(number)
    else:
        raise TypeError(f"must be real number, not {type(number).__name__}")
    return math.ldexp(value, 0)  # the same number; one that depends on sizes is known from here on
