"""``zip``, ``map``, ``itertools.chain`` and their like, said in Python.

Each behaves as the function it is named after, laziness included, because
generators are traced lazily too.

In torch: torch/_dynamo/polyfills/builtins.py and itertools.py. Read next:
nbcompile/tracing/inlining.py
"""

# Nothing here runs by itself: the tracer reads the bytecode.
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

_MISSING: Any = "<missing argument of a polyfill>"


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
    for position in range(1, len(iterators)):
        if next(iterators[position], _MISSING) is not _MISSING:
            raise ValueError(
                f"zip() argument {position + 1} is longer than argument{'s 1-' if position > 1 else ' '}{position}"
            )


def enumerate_(iterable: Iterable[Any], start: int = 0) -> Iterator[tuple[int, Any]]:
    """``enumerate``."""
    index = start
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


def chain(*iterables: Iterable[Any]) -> Iterator[Any]:
    """``itertools.chain``."""
    for iterable in iterables:
        yield from iterable


def chain_from_iterable(iterables: Iterable[Iterable[Any]]) -> Iterator[Any]:
    """``itertools.chain.from_iterable``."""
    for iterable in iterables:
        yield from iterable


def product(*iterables: Iterable[Any], repeat: int = 1) -> Iterator[tuple[Any, ...]]:
    """``itertools.product``."""
    pools = [tuple(each) for each in iterables] * repeat
    results: list[list[Any]] = [[]]
    for pool in pools:
        results = [[*result, item] for result in results for item in pool]
    for result in results:
        yield tuple(result)


def repeat(item: Any, times: int | None = None) -> Iterator[Any]:
    """``itertools.repeat``."""
    done = 0
    while times is None or done < times:
        yield item
        done += 1


def count(start: int = 0, step: int = 1) -> Iterator[int]:
    """``itertools.count``."""
    number = start
    while True:
        yield number
        number += step


def islice(iterable: Iterable[Any], *bounds: int | None) -> Iterator[Any]:
    """``itertools.islice``."""
    limits = slice(*bounds)
    start, stop, step = limits.start or 0, limits.stop, limits.step or 1
    wanted = start
    index = 0
    iterator = iter(iterable)
    while stop is None or index < stop:
        item = next(iterator, _MISSING)
        if item is _MISSING:
            return
        if index == wanted:
            yield item
            wanted += step
        index += 1


def accumulate(
    iterable: Iterable[Any], func: Callable[[Any, Any], Any] | None = None, *, initial: Any = None
) -> Iterator[Any]:
    """``itertools.accumulate``."""
    iterator = iter(iterable)
    total = initial
    if total is None:
        total = next(iterator, _MISSING)
        if total is _MISSING:
            return
    yield total
    for item in iterator:
        total = total + item if func is None else func(total, item)
        yield total


def zip_longest(*iterables: Iterable[Any], fillvalue: Any = None) -> Iterator[tuple[Any, ...]]:
    """``itertools.zip_longest``."""
    columns = [list(each) for each in iterables]
    length = max([len(column) for column in columns], default=0)
    for row in range(length):
        yield tuple([column[row] if row < len(column) else fillvalue for column in columns])


def starmap(function: Callable[..., Any], iterable: Iterable[Iterable[Any]]) -> Iterator[Any]:
    """``itertools.starmap``."""
    for arguments in iterable:
        yield function(*arguments)


def takewhile(predicate: Callable[[Any], Any], iterable: Iterable[Any]) -> Iterator[Any]:
    """``itertools.takewhile``."""
    for item in iterable:
        if not predicate(item):
            return
        yield item


def dropwhile(predicate: Callable[[Any], Any], iterable: Iterable[Any]) -> Iterator[Any]:
    """``itertools.dropwhile``."""
    dropping = True
    for item in iterable:
        if dropping and predicate(item):
            continue
        dropping = False
        yield item


def pairwise(iterable: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """``itertools.pairwise``."""
    items = list(iterable)
    for index in range(len(items) - 1):
        yield items[index], items[index + 1]


def combinations(iterable: Iterable[Any], r: int) -> Iterator[tuple[Any, ...]]:
    """``itertools.combinations``."""
    pool = tuple(iterable)
    for indices in permutations(range(len(pool)), r):
        if list(indices) == sorted(indices):
            yield tuple([pool[index] for index in indices])


def permutations(iterable: Iterable[Any], r: int | None = None) -> Iterator[tuple[Any, ...]]:
    """``itertools.permutations``."""
    pool = tuple(iterable)
    size = len(pool) if r is None else r
    for indices in product(range(len(pool)), repeat=size):
        if len(set(indices)) == size:
            yield tuple([pool[index] for index in indices])


def cycle(iterable: Iterable[Any]) -> Iterator[Any]:
    """``itertools.cycle``."""
    items = list(iterable)
    while items:
        for item in items:
            yield item


def compress(data: Iterable[Any], selectors: Iterable[Any]) -> Iterator[Any]:
    """``itertools.compress``."""
    for item, chosen in zip_(data, selectors):
        if chosen:
            yield item


def filterfalse(predicate: Callable[[Any], Any] | None, iterable: Iterable[Any]) -> Iterator[Any]:
    """``itertools.filterfalse``."""
    for item in iterable:
        if not (item if predicate is None else predicate(item)):
            yield item


def groupby(iterable: Iterable[Any], key: Callable[[Any], Any] | None = None) -> Iterator[tuple[Any, Iterator[Any]]]:
    """``itertools.groupby``."""
    group: list[Any] = []
    current = _MISSING
    for item in iterable:
        value = item if key is None else key(item)
        if current is not _MISSING and value != current:
            yield current, iter(group)
            group = []
        current = value
        group.append(item)
    if group:
        yield current, iter(group)


def tee(iterable: Iterable[Any], n: int = 2) -> tuple[Iterator[Any], ...]:
    """``itertools.tee``."""
    items = list(iterable)
    return tuple([iter(items) for _ in range(n)])


def by_index(sequence: Any) -> Iterator[Any]:
    """The old iteration protocol."""
    index = 0
    while True:
        try:
            item = sequence[index]
        except IndexError:
            return
        yield item
        index += 1


def itemgetter(*items: Any) -> Callable[[Any], Any]:
    """``operator.itemgetter``."""
    if len(items) == 1:
        return lambda owner: owner[items[0]]
    return lambda owner: tuple([owner[item] for item in items])


def attrgetter(*names: str) -> Callable[[Any], Any]:
    """``operator.attrgetter``; a dotted name goes several steps."""

    def one(owner: Any, name: str) -> Any:
        for part in name.split("."):
            owner = getattr(owner, part)
        return owner

    if len(names) == 1:
        return lambda owner: one(owner, names[0])
    return lambda owner: tuple([one(owner, name) for name in names])


def methodcaller(name: str, /, *arguments: Any, **keywords: Any) -> Callable[[Any], Any]:
    """``operator.methodcaller``."""
    return lambda owner: getattr(owner, name)(*arguments, **keywords)


def fspath(path: Any) -> str | bytes:
    """``os.fspath``."""
    if isinstance(path, (str, bytes)):
        return path
    if not hasattr(type(path), "__fspath__"):
        raise TypeError(f"expected str, bytes or os.PathLike object, not {type(path).__name__}")
    text: str | bytes = type(path).__fspath__(path)
    return text


def call_until(function: Callable[[], Any], sentinel: Any) -> Iterator[Any]:
    """``iter(function, sentinel)``."""
    while True:
        value = function()
        if value == sentinel:
            return
        yield value
