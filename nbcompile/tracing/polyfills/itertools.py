"""``itertools``, written in Python: each function takes no more of its arguments than the real one does at that moment.

    chain(a, b)      yield from a; yield from b
    tee(a)           two generators over one iterator, and what one of them is ahead

In torch: torch/_dynamo/polyfills/itertools.py. Read next:
nbcompile/tracing/frame/inlining.py
"""

# Nothing here runs by itself: the tracer reads the bytecode.
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from nbcompile.tracing.polyfills.builtins import enumerate_, zip_

_MISSING: Any = "<no item is left>"


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
    # Each argument is iterated many times, so all items are read first.
    pools = [tuple(each) for each in iterables] * repeat
    results: list[list[Any]] = [[]]
    for pool in pools:
        results = [[*result, item] for result in results for item in pool]
    for result in results:
        yield tuple(result)


def repeat(object: Any, times: int | None = None) -> Iterator[Any]:
    """``itertools.repeat``."""
    done = 0
    while times is None or done < times:
        yield object
        done += 1


def count(start: int = 0, step: int = 1) -> Iterator[int]:
    """``itertools.count``."""
    number = int(start) if isinstance(start, int) else start  # True is counted from as 1
    while True:
        yield number
        number += step


def islice(iterable: Iterable[Any], *bounds: int | None) -> Iterator[Any]:
    """``itertools.islice``."""
    limits = slice(*bounds)
    start, stop, step = limits.start or 0, limits.stop, limits.step or 1
    target = start
    index = 0
    iterator = iter(iterable)
    # Items are taken up to the stop, also those that the step leaps over,
    # and none behind it: who continues with the iterator finds the rest.
    while stop is None or index < stop:
        item = next(iterator, _MISSING)
        if item is _MISSING:
            return
        if index == target:
            yield item
            target += step
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
    # An exhausted iterator becomes None, and ``next`` is not called on it again: it might continue.
    iterators: list[Any] = [iter(each) for each in iterables]
    left = len(iterators)
    while left:
        row = []
        # The row in which the last iterators end holds only fill values, and is dropped: `left` is 0 then.
        for index, iterator in enumerate_(iterators):
            item = _MISSING if iterator is None else next(iterator, _MISSING)
            if item is _MISSING:
                if iterator is not None:
                    iterators[index] = None
                    left -= 1
                item = fillvalue
            row.append(item)
        if left:
            yield tuple(row)


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
    iterator = iter(iterable)
    before = next(iterator, _MISSING)
    for item in iterator:
        yield before, item
        before = item


def combinations(iterable: Iterable[Any], r: int) -> Iterator[tuple[Any, ...]]:
    """``itertools.combinations``."""
    pool = tuple(iterable)
    chosen = list(range(r))
    while r <= len(pool):
        yield tuple([pool[index] for index in chosen])
        # The next combination in order, of positions in the pool (r = 3 of 5):
        #      0 1 2    0 1 3    0 1 4    0 2 3    0 2 4    0 3 4    1 2 3 ...
        # The last position that is not at its end moves on by one, and those behind it follow without a gap.
        position = r - 1
        while position >= 0 and chosen[position] == position + len(pool) - r:
            position -= 1
        if position < 0:
            return
        first = chosen[position] + 1
        chosen[position:] = range(first, first + r - position)


def combinations_with_replacement(iterable: Iterable[Any], r: int) -> Iterator[tuple[Any, ...]]:
    """``itertools.combinations_with_replacement``."""
    pool = tuple(iterable)
    chosen = [0] * r
    while pool or not r:
        yield tuple([pool[index] for index in chosen])
        position = r - 1
        while position >= 0 and chosen[position] == len(pool) - 1:
            position -= 1
        if position < 0:
            return
        chosen[position:] = [chosen[position] + 1] * (r - position)


def permutations(iterable: Iterable[Any], r: int | None = None) -> Iterator[tuple[Any, ...]]:
    """``itertools.permutations``."""
    pool = tuple(iterable)
    yield from _permuted((), pool, len(pool) if r is None else r)


def _permuted(chosen: tuple[Any, ...], left: tuple[Any, ...], target: int) -> Iterator[tuple[Any, ...]]:
    if target == 0:
        yield chosen
        return
    for index, item in enumerate_(left):
        yield from _permuted((*chosen, item), left[:index] + left[index + 1 :], target - 1)


def cycle(iterable: Iterable[Any]) -> Iterator[Any]:
    """``itertools.cycle``."""
    items = []
    for item in iterable:
        items.append(item)
        yield item
    while items:
        yield from items


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
    """``itertools.groupby``: the groups share the iterator, so that one ends when the next is requested."""
    iterator = iter(iterable)
    item = next(iterator, _MISSING)
    value = item if item is _MISSING or key is None else key(item)

    # A group ends when its items are requested after the next group has
    # begun: `number` is the group's own, `groups` that of the latest.
    def group(target: Any, number: int) -> Iterator[Any]:
        nonlocal item, value
        while number == groups and item is not _MISSING and (value is target or target == value):
            yield item
            if number == groups:
                item = next(iterator, _MISSING)
                value = item if item is _MISSING or key is None else key(item)

    groups = 0
    while item is not _MISSING:
        groups += 1
        target = value
        yield target, group(target, groups)
        while item is not _MISSING and (value is target or target == value):  # NaN is itself
            item = next(iterator, _MISSING)
            value = item if item is _MISSING or key is None else key(item)


def tee(iterable: Iterable[Any], n: int = 2) -> tuple[Iterator[Any], ...]:
    """``itertools.tee``; it checks ``n`` first, and calls ``iter`` only if copies are requested."""
    if n < 0:
        raise ValueError("n must be >= 0")
    if n == 0:
        return ()
    iterator = iter(iterable)
    queues: list[list[Any]] = [[] for _ in range(n)]

    #      taken from the iterator        a b c d
    #      the first copy gave all        waiting: []
    #      the second one gave a, b       waiting: [c, d]
    def follow(waiting: list[Any]) -> Iterator[Any]:
        while True:
            if not waiting:
                item = next(iterator, _MISSING)
                if item is _MISSING:
                    return
                for queue in queues:
                    queue.append(item)
            yield waiting.pop(0)

    return tuple([follow(each) for each in queues])
