"""``math.fsum`` and ``math.dist`` of any iterables are traced, with eager mode's numbers and errors."""

from __future__ import annotations

import fractions
import itertools
import math
import operator
import statistics

import pytest
import torch

import nbcompile
from tests.support.oracle import one_graph, require_same_rejection

X = torch.arange(3.0)


class Length:
    """A number with only ``__float__``."""

    def __init__(self, metres):
        self.metres = metres

    def __float__(self):
        return self.metres


class Position:
    """A number with only ``__index__``."""

    def __index__(self):
        return 3


class Doubled(float):
    """A float whose ``__float__`` C code does not call."""

    def __float__(self):
        return 2 * super().__float__()


class Pair(tuple):
    """A tuple whose ``__iter__`` C code does not call."""

    __slots__ = ()

    def __iter__(self):
        return iter([0.0, 0.0])


def tenths(count):
    for _ in range(count):
        yield 0.1


sumprod = getattr(math, "sumprod", lambda p, q: sum(map(operator.mul, p, q)))  # from Python 3.12 on

PROGRAMS = {
    "a sum of a generator expression": lambda: math.fsum(0.1 * each for each in range(10)),
    "a sum of a generator": lambda: math.fsum(tenths(10)),
    "a sum of map": lambda: math.fsum(map(float, ("0.1", "1e16", "-1e16"))),
    "a sum of islice": lambda: math.fsum(itertools.islice(itertools.count(0.1, 0.1), 5)),
    "a sum of nothing": lambda: math.fsum(iter(())),
    "a sum of objects": lambda: math.fsum([Length(0.1), Position(), True, 2**70]),
    "a sum of fractions": lambda: math.fsum(fractions.Fraction(1, each) for each in (3, 6, 7)),
    "a sum of a subclass": lambda: math.fsum([Doubled(1.5), Length(1.0)]),
    "a sum with a negative zero": lambda: math.copysign(1.0, math.fsum(-each for each in (0.0, 0.0))),
    "a sum with infinity": lambda: math.fsum(each for each in (1.0, math.inf, 2.0)),
    "a sum without a number": lambda: str(math.fsum(each for each in (1.0, math.nan))),
    "a sum that only a partial sum overflows": lambda: math.fsum(each for each in (1e308, -1e308, 1e308)),
    "a distance of generators": lambda: math.dist((each for each in (1, 2)), map(float, (4, 6))),
    "a distance of objects": lambda: math.dist([Length(1.0), Position()], (Length(4.0), 7)),
    "a distance of a subclass": lambda: math.dist(Pair([3.0, 4.0]), (Length(0.0), 0)),
    "a mean of a generator": lambda: statistics.fmean(tenths(7)),
    "a weighted mean": lambda: statistics.fmean([1, 2], weights=[3, 4]),
    "a geometric mean": lambda: statistics.geometric_mean([54, 24, 36]),
    "a correlation": lambda: statistics.correlation([1, 2, 3.0], [2, 3, 5.0]),
    "a sum of products": lambda: sumprod((each for each in (0.1, 2)), map(float, (3, 4))),
    "a sum of products of nothing": lambda: sumprod(iter(()), []),
    "a sum of products of objects": lambda: sumprod([0.1, fractions.Fraction(1, 3), 2], (each for each in [3, 3, 0.5])),
    "a regression": lambda: tuple(statistics.linear_regression([1, 2, 3.0], [2, 3, 5.0])),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_are_eagers(name):
    """The results are bitwise equal to eager mode's, in one graph."""
    program = PROGRAMS[name]
    assert one_graph(lambda x: (x + 1, program()), X)[1] == program()


REJECTED = {
    "a text among the numbers": lambda seen: math.fsum(noted(seen, (1.0, "2", 3.0))),
    "None among the numbers": lambda seen: math.fsum(noted(seen, (None, 3.0))),
    "a complex number": lambda seen: math.fsum(noted(seen, (1j, 3.0))),
    "an int that is too large": lambda seen: math.fsum(noted(seen, (10**400, 3.0))),
    "an overflow on the way": lambda seen: math.fsum(noted(seen, (1e308, 1e308, 3.0))),
    "infinities of both signs": lambda seen: math.fsum(noted(seen, (math.inf, -math.inf, 3.0))),
    "no iterable": lambda seen: math.fsum(Length(1.0)),
    "a generator that raises": lambda seen: math.fsum(1 / each for each in noted(seen, (1, 0, 2))),
    "two arguments": lambda seen: math.fsum(noted(seen, (1,)), 2),
    "points of several dimensions": lambda seen: math.dist(noted(seen, (1, "2")), noted(seen, (3,))),
    "lists of several lengths": lambda seen: sumprod(noted(seen, (1, 2, 3)), noted(seen, (3,))),
    "a text as coordinate": lambda seen: math.dist(noted(seen, (1, "2")), noted(seen, (3, 4))),
    "a second point that is none": lambda seen: math.dist(noted(seen, (1, 2)), Length(1.0)),
}


def noted(seen, items):
    for item in items:
        seen.append(item)
        yield item


@pytest.mark.parametrize("rejected", REJECTED)
def test_rejections_are_pythons_own(rejected):
    """The class and the text of the exception, and the position of the iterator, are Python's."""
    require_same_rejection(REJECTED[rejected], X)


def test_a_size_is_specialised():
    """The size becomes a constant, as for other functions of ``math`` without a symbolic form."""

    def function(x):
        return x * math.fsum(float(size) for size in x.shape)

    compiled = nbcompile.compile(function, backend="eager", fullgraph=True, dynamic=True)
    for size in (3, 4):
        assert torch.equal(compiled(torch.ones(size, 2)), function(torch.ones(size, 2)))
