"""Iterators that outlive a graph: their class, their position and what they share with others."""

from __future__ import annotations

import collections
import itertools
import operator
from collections.abc import Callable, Iterator

import pytest
import torch

import nbcompile
from tests.support.oracle import disagreement, tried

XS = [1, 2, 3, 4]


class _BySubscript:
    def __getitem__(self, index: int) -> int:
        if index > 2:
            raise IndexError
        return index


class _ByLength(_BySubscript):
    def __len__(self) -> int:
        return 3


MAKERS: dict[str, Callable[[], Iterator[object]]] = {
    "zip": lambda: zip(XS, "abcd", strict=True),
    "map": lambda: map(operator.add, XS, range(10)),
    "filter": lambda: filter(None, [0, 1, 2, 0, 3]),
    "enumerate": lambda: enumerate(XS, 5),
    "count": lambda: itertools.count(0.5, 0.25),
    "repeat": lambda: itertools.repeat("a", 3),
    "cycle": lambda: itertools.cycle(XS),
    "takewhile": lambda: itertools.takewhile(lambda number: number < 3, XS),
    "dropwhile": lambda: itertools.dropwhile(lambda number: number < 2, XS),
    "chain": lambda: itertools.chain(XS, "ab"),
    "islice": lambda: itertools.islice(XS, 1, None, 2),
    "accumulate": lambda: itertools.accumulate(XS, initial=10),
    "zip_longest": lambda: itertools.zip_longest(XS, "ab", fillvalue="-"),
    "pairwise": lambda: itertools.pairwise(XS),
    "group": lambda: next(itertools.groupby([1, 1, 2]))[1],
    "product": lambda: itertools.product("ab", repeat=2),
    "permutations": lambda: itertools.permutations(XS, 2),
    "tee": lambda: itertools.tee(XS)[1],
    "by_subscript": lambda: iter(_BySubscript()),
    "reversed": lambda: reversed(_ByLength()),
    "until": lambda: iter(iter([1, 2, 0, 3]).__next__, 0),
    "generator": lambda: (number * 2 for number in XS),
    "deque": lambda: iter(collections.deque(XS)),
    "items": lambda: iter({"a": 1, "b": 2}.items()),
}


@pytest.mark.parametrize("taken", [0, 1, 9])
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_an_iterator_is_returned_with_its_class_and_position(make, taken):
    """A returned iterator has its class and continues at its position, also at its end."""

    def function(x):
        iterator = make()
        for _ in range(taken):
            next(iterator, None)
        return x + 1, iterator

    def scenario(compiled):
        def read():
            _, iterator = compiled(function)(torch.ones(2))
            return type(iterator).__name__, list(itertools.islice(iterator, 6)), next(iterator, "end")

        yield tried(read)

    assert not disagreement(scenario)


@pytest.mark.parametrize("make", [zip, map], ids=["zip", "map"])
def test_an_iterator_that_two_names_share_stays_shared(make):
    """Two iterators still share one after a graph break: an item that one of them takes is missing in the other."""

    def function(x):
        inner = iter([1, 2, 3, 4, 5, 6])
        outer = zip(inner, inner, strict=False) if make is zip else map(operator.neg, inner)
        first = next(outer)
        y = x + 1
        torch._dynamo.graph_break()
        return y, first, next(inner), list(outer), list(inner)

    def scenario(compiled):
        yield compiled(function)(torch.ones(2))

    assert not disagreement(scenario)


def test_what_is_to_come_is_computed_after_the_break():
    """The function of a ``map`` reads a variable when an item is taken, not when the graph ends."""
    factor = [1]

    def function(x):
        products = map(lambda number: number * factor[0], XS)
        first = next(products)
        y = x + 1
        torch._dynamo.graph_break()
        factor[0] = 10
        return y, first, list(products)

    _, first, rest = nbcompile.compile(function, backend="eager")(torch.ones(2))
    assert (first, rest) == (1, [20, 30, 40])
