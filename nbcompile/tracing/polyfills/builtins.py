"""``zip``, ``map``, ``functools.reduce`` and their like, written in Python.

Each behaves as the function it is named after, laziness included, because
generators are traced lazily too.

In torch: torch/_dynamo/polyfills/builtins.py. Read next: itertools.py
"""

# Nothing here runs by itself: the tracer reads the bytecode.
from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_MISSING: Any = "<missing argument of a polyfill>"


def fromkeys(cls: type, iterable: Iterable[Any], value: Any = None, /) -> Any:
    """``dict.fromkeys``, of subclasses too: their own ``__init__`` and ``__setitem__`` are called."""
    mapping = cls()
    for key in iterable:
        mapping[key] = value
    return mapping


def zip_(*iterables: Iterable[Any], strict: bool = False) -> Iterator[tuple[Any, ...]]:
    """``zip``."""
    iterators = [iter(each) for each in iterables]
    while iterators:
        items = []
        for index, iterator in enumerate_(iterators):
            item = next(iterator, _MISSING)
            if item is _MISSING:
                if strict:
                    _check_zip_ended(iterators, index)
                return
            items.append(item)
        yield tuple(items)


def _check_zip_ended(iterators: list[Iterator[Any]], index: int) -> None:
    if index > 0:
        raise ValueError(f"zip() argument {index + 1} is shorter than argument{'s 1-' if index > 1 else ' '}{index}")
    # The first one has ended: all others must be at their ends, too.
    for position in range(1, len(iterators)):
        if next(iterators[position], _MISSING) is not _MISSING:
            raise ValueError(
                f"zip() argument {position + 1} is longer than argument{'s 1-' if position > 1 else ' '}{position}"
            )


def enumerate_(iterable: Iterable[Any], start: int = 0) -> Iterator[tuple[int, Any]]:
    """``enumerate``."""
    index = operator.index(start)
    for item in iterable:
        yield index, item
        index += 1


def map_(function: Callable[..., Any], *iterables: Iterable[Any]) -> Iterator[Any]:
    """``map``."""
    for items in zip_(*iterables):
        yield function(*items)


def filter_(function: Callable[[Any], Any] | None, iterable: Iterable[Any]) -> Iterator[Any]:
    """``filter``."""
    for item in iterable:
        if item if function is None else function(item):
            yield item


def any_(iterable: Iterable[Any]) -> bool:
    """``any``."""
    for item in iterable:
        if item:
            return True
    return False


def all_(iterable: Iterable[Any]) -> bool:
    """``all``."""
    for item in iterable:
        if not item:
            return False
    return True


def reduce(function: Callable[[Any, Any], Any], iterable: Iterable[Any], initial: Any = _MISSING) -> Any:
    """``functools.reduce``."""
    iterator = iter(iterable)
    value = initial
    if value is _MISSING:
        value = next(iterator, _MISSING)
        if value is _MISSING:
            raise TypeError("reduce() of empty iterable with no initial value")
    for item in iterator:
        value = function(value, item)
    return value


def by_index(sequence: Any) -> Iterator[Any]:
    """The old iteration protocol."""
    index = 0
    while True:
        try:
            item = sequence[index]
        except (IndexError, StopIteration):
            return
        yield item
        index += 1


def reversed_by_index(sequence: Any, length: int) -> Iterator[Any]:
    """``reversed`` of an object that has ``__getitem__`` and had this length when the iterator was created."""
    for index in range(length - 1, -1, -1):
        try:
            item = sequence[index]
        except (IndexError, StopIteration):
            return
        yield item


def itemgetter(*items: Any) -> Callable[[Any], Any]:
    """``operator.itemgetter``."""
    if not items:
        raise TypeError("itemgetter expected 1 argument, got 0")
    if len(items) == 1:
        return lambda owner: owner[items[0]]
    return lambda owner: tuple([owner[item] for item in items])


def attrgetter(*names: str) -> Callable[[Any], Any]:
    """``operator.attrgetter``; a dotted name goes several steps."""
    if not names:
        raise TypeError("attrgetter expected 1 argument, got 0")
    if not all(isinstance(name, str) for name in names):
        raise TypeError("attribute name must be a string")

    def one(owner: Any, name: str) -> Any:
        for part in name.split("."):
            owner = getattr(owner, part)
        return owner

    if len(names) == 1:
        return lambda owner: one(owner, names[0])
    return lambda owner: tuple([one(owner, name) for name in names])


def methodcaller(name: str, /, *arguments: Any, **keywords: Any) -> Callable[[Any], Any]:
    """``operator.methodcaller``."""
    if not isinstance(name, str):
        raise TypeError("method name must be a string")
    return lambda owner: getattr(owner, name)(*arguments, **keywords)


def fspath(path: Any) -> str | bytes:
    """``os.fspath``."""
    if isinstance(path, (str, bytes)):
        return path
    if not hasattr(type(path), "__fspath__"):
        raise TypeError(f"expected str, bytes or os.PathLike object, not {type(path).__name__}")
    text: str | bytes = type(path).__fspath__(path)
    return text


def count_elements(counts: dict[Any, int], elements: Iterable[Any]) -> None:
    """Polyfill of the function in C with which ``collections.Counter`` counts."""
    for element in elements:
        counts[element] = counts.get(element, 0) + 1


class _Key:
    """A value that compares by a function, as that of ``functools.cmp_to_key``."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, compare: Callable[[Any, Any], Any], obj: Any) -> None:
        self.compare = compare
        self.obj = obj

    def __lt__(self, other: Any) -> bool:
        return self.compare(self.obj, _compared(other)) < 0  # type: ignore[no-any-return]

    def __le__(self, other: Any) -> bool:
        return self.compare(self.obj, _compared(other)) <= 0  # type: ignore[no-any-return]

    def __gt__(self, other: Any) -> bool:
        return self.compare(self.obj, _compared(other)) > 0  # type: ignore[no-any-return]

    def __ge__(self, other: Any) -> bool:
        return self.compare(self.obj, _compared(other)) >= 0  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> bool:
        return self.compare(self.obj, _compared(other)) == 0  # type: ignore[no-any-return]


def _compared(other: Any) -> Any:
    if not isinstance(other, _Key):
        raise TypeError("other argument must be K instance")
    return other.obj


def cmp_to_key(mycmp: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """``functools.cmp_to_key``."""
    return lambda obj: _Key(mycmp, obj)


def _words_for_uncallable() -> str:
    try:
        iter(None, None)
    except TypeError as error:
        return str(error)


_UNCALLABLE = _words_for_uncallable()
"""The words of this Python: 3.12 has others."""


def until(function: Callable[[], Any], sentinel: Any) -> Iterator[Any]:
    """``iter(function, sentinel)``."""
    if not callable(function):
        raise TypeError(_UNCALLABLE)
    return call_until(function, sentinel)


def call_until(function: Callable[[], Any], sentinel: Any) -> Iterator[Any]:
    """The iterator of ``iter(function, sentinel)``."""
    while True:
        value = function()
        # As PyObject_RichCompareBool: identity first, then equality with the sentinel on the left.
        if value is sentinel or sentinel == value:
            return
        yield value


def group_tensors(lists: list[list[Any]], with_indices: bool = False) -> dict[Any, Any]:
    """``torch._C._group_tensors_by_device_and_dtype``: the lists, cut into groups of one device and dtype."""
    groups: dict[Any, Any] = {}
    for index, first in enumerate(lists[0]):
        key = (first.device, first.dtype)
        if key not in groups:
            groups[key] = ([[] for _ in lists], [])
        members, indices = groups[key]
        for kept, items in zip(members, lists, strict=True):
            if items:
                kept.append(items[index])
        if with_indices:
            indices.append(index)
    return groups


def update_wrapper(
    wrapper: Any,
    wrapped: Any,
    assigned: Iterable[str] = functools.WRAPPER_ASSIGNMENTS,
    updated: Iterable[str] = functools.WRAPPER_UPDATES,
) -> Any:
    """``functools.update_wrapper``."""
    for name in assigned:
        try:
            value = getattr(wrapped, name)
        except AttributeError:
            continue
        setattr(wrapper, name, value)
    for name in updated:
        getattr(wrapper, name).update(getattr(wrapped, name, {}))
    wrapper.__wrapped__ = wrapped
    return wrapper
