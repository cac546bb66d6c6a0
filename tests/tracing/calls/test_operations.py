"""Operators on values of Python: what they answer, and what they refuse, is eager mode's."""

from __future__ import annotations

import collections

import pytest
import torch

import nbcompile
from tests.tracing.oracle import require_same_answer, tried

N = float("nan")
PROGRAMS = {
    "dicts with a NaN": lambda: [{1: N} == {1: N}, {1: N} != {1: N}, {1: N} == {1: float("nan")}],
    "ordered dicts with a NaN": lambda: collections.OrderedDict(a=N) == collections.OrderedDict(a=N),
    "slices with a NaN": lambda: [slice(N) == slice(N), slice(N, 1) != slice(N, 1)],
    "sequences with a NaN": lambda: [[N] <= [N], (N, 1) < (N, 2), [N] < [N], [N, 2] > [N, 1], [float("nan")] <= [N]],
    "a set and a list": lambda: {1} <= [1],
    "a set and a tuple": lambda: {1} > (1,),
    "a set and keys": lambda: [{1} <= {1: 2}.keys(), {1: 2}.keys() < {1, 2}, {(1, 2)} == {1: 2}.items()],
    "a set and values": lambda: {1} <= {1: 2}.values(),
    "values and a set": lambda: {1: 2}.values() <= {1},
    "values and values": lambda: [{1: 2}.values() == {1: 2}.values(), {1: 2}.values() != {1: 2}.values()],
    "values themselves": lambda: (lambda v: [v == v, v != v])({1: 2}.values()),
    "keys and keys": lambda: [{1: 2}.keys() == {1: 3}.keys(), {1: 2}.items() == {1: 3}.items()],
    "a NaN in a sequence": lambda: [
        N in [N],
        N in (N,),
        [N].index(N),
        (N,).count(N),
        float("nan") in [N],
        [1, N].index(N),
    ],
    "a NaN in a deque": lambda: (lambda d: [N in d, d.count(N), d.index(N), d == collections.deque([N])])(
        collections.deque([N])
    ),
    "deques in order": lambda: [
        collections.deque([N]) <= collections.deque([N]),
        collections.deque([1, 2]) < collections.deque([1, 3]),
    ],
    "a NaN is removed": lambda: (lambda xs: (xs.remove(N), xs))([1, N, 2]),
    "nested": lambda: [[(N,)] == [(N,)], {1: [N]} == {1: [N]}, ({1: N},) == ({1: N},), [slice(N)] == [slice(N)]],
    "ranges and dicts": lambda: [range(3) == range(0, 3, 1), {1: range(2)} == {1: range(2)}],
    "methods of sets": lambda: [{1}.union([2]), {1}.issubset([1]), {1}.__le__([1]), {1}.__or__([2])],
    "a dict and pairs": lambda: {1: 2} | [(3, 4)],
    "frozen sets": lambda: [frozenset([1]) < {1, 2}, frozenset([1]) == {1}],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_comparisons(name):
    """Items that are one object are equal, a NaN, too; what Python does not compare is a TypeError."""
    require_same_answer(PROGRAMS[name])


def in_place(function):
    def program(x):
        s = {1, 2}
        alias = s
        s = function(s)
        return x + 1, s, alias, s is alias

    return program


def _or_list(s):
    s |= [3]
    return s


def _or_keys(s):
    s |= {3: 4}.keys()
    return s


def _or_set(s):
    s |= {3}
    return s


def _and_frozen(s):
    s &= frozenset([1])
    return s


def _minus_tuple(s):
    s -= (1,)
    return s


def _xor_items(s):
    s ^= {3: 4}.items()
    return s


def _minus_keys(s):
    s -= {1: 4}.keys()
    return s


@pytest.mark.parametrize(
    "function",
    [_or_list, _or_keys, _or_set, _and_frozen, _minus_tuple, _xor_items, _minus_keys],
    ids=lambda f: f.__name__,
)
def test_sets_in_place(function):
    """Only a set changes a set in place: with a view of a dict the result is a new one, a list is refused."""
    program = in_place(function)
    x = torch.ones(2)
    expected, found = tried(program, x), tried(nbcompile.compile(program, backend="eager"), x)
    assert str(found) == str(expected)


class Two:
    """An index."""

    def __index__(self) -> int:
        return 2


TWO = Two()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x + 1, "ab" * TWO),
        lambda x: (x + 1, [1] * TWO),
        lambda x: (x + 1, TWO * (1,)),
        lambda x: (x + 1, collections.deque([1]) * TWO),
    ],
    ids=["str", "list", "tuple", "deque"],
)
def test_a_sequence_is_repeated_by_an_index(function):
    """``sequence * object`` asks the object's ``__index__``."""
    x = torch.ones(2)
    assert nbcompile.compile(function, fullgraph=True)(x)[1] == function(x)[1]


class Sum:
    """Operators of a base class."""

    def __add__(self, other: object) -> str:
        return "add"

    def __radd__(self, other: object) -> str:
        return "reflected"

    def __lt__(self, other: object) -> str:
        return "less"

    def __gt__(self, other: object) -> str:
        return "greater"


class Same(Sum):
    """A subclass without an operator of its own."""


class Other(Sum):
    """A subclass with a reflected method of its own."""

    def __radd__(self, other: object) -> str:
        return "own"


SUM, SAME, OTHER = Sum(), Same(), Other()


def test_a_subclass_comes_first_where_it_overrides_the_reflected_method():
    """``base + derived`` asks the derived class first only then; a comparison does so always."""

    def function(x):
        return x + 1, SUM + SAME, SUM + OTHER, SAME + SUM, SAME + OTHER, SUM < SAME, SUM < OTHER

    x = torch.ones(2)
    assert nbcompile.compile(function, fullgraph=True)(x)[1:] == function(x)[1:]
    assert function(x)[1:] == ("add", "own", "add", "add", "greater", "greater")


def test_the_error_of_an_operator_in_place_names_it():
    """``None += 1`` says so, not ``+``."""

    def function(x):
        value = None
        try:
            value += 1
        except TypeError as error:
            return x + 1, str(error)

    x = torch.ones(2)
    assert nbcompile.compile(function)(x)[1] == function(x)[1]
