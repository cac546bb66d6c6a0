"""``heapq`` and ``bisect``, written in Python: the same comparisons in the same order, and so the same lists, as in C.

    heappush(heap, item)      append, then _rise: past each parent that is greater
    heappop(heap)             the last item on top, then _sink: the lesser child goes up, down to a leaf; then _rise

What ``heapq`` itself says in Python (``nlargest``, ``merge``) is traced through, and calls these.

In torch: torch/_dynamo/polyfills/heapq.py. Read next: nbcompile/tracing/calls/library.py
"""

# Nothing here runs by itself: the tracer reads the bytecode.
from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

_item, _put = list.__getitem__, list.__setitem__  # C reads the items of a list, whatever its class says


def heapify(heap: list[Any], /) -> None:
    """``heapq.heapify``."""
    _expect_list(heap, "heapify() argument")
    _heapify(heap, _less)


def heapify_max(heap: list[Any], /) -> None:
    """``heapq._heapify_max``."""
    _expect_list(heap, "_heapify_max() argument")
    _heapify(heap, _greater)


def heappush(heap: list[Any], item: Any, /) -> None:
    """``heapq.heappush``."""
    _expect_list(heap, "heappush() argument 1")
    list.append(heap, item)
    _rise(heap, 0, list.__len__(heap) - 1, _less)


def heappop(heap: list[Any], /) -> Any:
    """``heapq.heappop``."""
    _expect_list(heap, "heappop() argument")
    return _pop(heap, _less)


def heappop_max(heap: list[Any], /) -> Any:
    """``heapq._heappop_max``."""
    _expect_list(heap, "_heappop_max() argument")
    return _pop(heap, _greater)


def heapreplace(heap: list[Any], item: Any, /) -> Any:
    """``heapq.heapreplace``."""
    _expect_list(heap, "heapreplace() argument 1")
    return _replace(heap, item, _less)


def heapreplace_max(heap: list[Any], item: Any, /) -> Any:
    """``heapq._heapreplace_max``."""
    _expect_list(heap, "_heapreplace_max() argument 1")
    return _replace(heap, item, _greater)


def heappushpop(heap: list[Any], item: Any, /) -> Any:
    """``heapq.heappushpop``."""
    _expect_list(heap, "heappushpop() argument 1")
    if list.__len__(heap) and _item(heap, 0) < item:
        return _replace(heap, item, _less)
    return item


def _expect_list(heap: object, named: str) -> None:
    if not isinstance(heap, list):
        raise TypeError(f"{named} must be list, not {type(heap).__name__}")


def _less(left: Any, right: Any) -> Any:
    return left < right


def _greater(left: Any, right: Any) -> Any:
    return right < left


def _heapify(heap: list[Any], before: Callable[[Any, Any], Any]) -> None:
    # Children before their parents. C takes a list of more than 2500 items in another order of
    # subtrees, one after the other as they are in the cache: the same comparisons, and the same list.
    index = list.__len__(heap) // 2
    while index > 0:
        index -= 1
        _sink(heap, index, before)


def _pop(heap: list[Any], before: Callable[[Any, Any], Any]) -> Any:
    if not list.__len__(heap):
        raise IndexError("index out of range")
    last = list.pop(heap)
    return _replace(heap, last, before) if list.__len__(heap) else last


def _replace(heap: list[Any], item: Any, before: Callable[[Any, Any], Any]) -> Any:
    if not list.__len__(heap):
        raise IndexError("index out of range")
    top = _item(heap, 0)
    _put(heap, 0, item)
    _sink(heap, 0, before)
    return top


def _rise(heap: list[Any], top: int, index: int, before: Callable[[Any, Any], Any]) -> None:
    """Move an item up, past each parent that it comes before."""
    #             0
    #          1     2          the children of item k are items 2 * k + 1 and 2 * k + 2
    #         3 4   5 6
    while index > top:
        parent = (index - 1) // 2
        item, above = _item(heap, index), _item(heap, parent)
        if not before(item, above):
            return
        _put(heap, index, above)
        _put(heap, parent, item)
        index = parent


def _sink(heap: list[Any], index: int, before: Callable[[Any, Any], Any]) -> None:
    """Move an item down to a leaf, and from there up to its position: mostly with fewer comparisons."""
    top, length = index, list.__len__(heap)
    while index < length // 2:
        child = 2 * index + 1
        if child + 1 < length and not before(_item(heap, child), _item(heap, child + 1)):
            child += 1
        item, below = _item(heap, index), _item(heap, child)
        _put(heap, index, below)
        _put(heap, child, item)
        index = child
    _rise(heap, top, index, before)


def bisect_left(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Callable[[Any], Any] | None = None) -> int:
    """``bisect.bisect_left``."""
    low, high = _bounds(a, lo, hi)
    while low < high:
        middle = (low + high) // 2
        if (a[middle] if key is None else key(a[middle])) < x:
            low = middle + 1
        else:
            high = middle
    return low


def bisect_right(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Callable[[Any], Any] | None = None) -> int:
    """``bisect.bisect_right``."""
    low, high = _bounds(a, lo, hi)
    while low < high:
        middle = (low + high) // 2
        if x < (a[middle] if key is None else key(a[middle])):
            high = middle
        else:
            low = middle + 1
    return low


def insort_left(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Callable[[Any], Any] | None = None) -> None:
    """``bisect.insort_left``."""
    a.insert(bisect_left(a, x if key is None else key(x), lo, hi, key=key), x)


def insort_right(
    a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Callable[[Any], Any] | None = None
) -> None:
    """``bisect.insort_right``."""
    a.insert(bisect_right(a, x if key is None else key(x), lo, hi, key=key), x)


def _bounds(a: Any, lo: int, hi: int | None) -> tuple[int, int]:
    low = operator.index(lo)
    high = -1 if hi is None else operator.index(hi)
    if low < 0:
        raise ValueError("lo must be non-negative")
    return low, len(a) if high == -1 else high  # C's own sign for "up to the end"
