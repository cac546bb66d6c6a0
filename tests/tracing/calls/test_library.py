"""Functions of the standard library that are traced where torch.compile breaks the graph or differs from eager mode."""

from __future__ import annotations

import collections
import functools
import itertools
import operator
import types
from typing import Any

import pytest
import torch

import nbcompile
from tests.support.answers import check


class Hint:
    """An object that estimates its length."""

    def __init__(self, hint: Any) -> None:
        self.hint = hint

    def __length_hint__(self) -> Any:
        return self.hint


def test_length_hint_is_known_while_tracing():
    """``length_hint`` works in one graph for iterators, generators, tensors and objects with ``__length_hint__``."""

    def f(x):
        hint = operator.length_hint
        given = [hint(iter([1])), hint((i for i in ()), 7), hint(Hint(NotImplemented), 3), hint(Hint(4)), hint(x)]
        return x + sum(given), given

    explained = nbcompile.explain(f, backend="eager")(torch.ones(2))
    assert (explained.graph_count, explained.graph_break_count) == (1, 0)
    assert explained.result[1] == f(torch.ones(2))[1]
    assert torch.equal(explained.result[0], f(torch.ones(2))[0])


@pytest.mark.parametrize("given", [(Hint(-1),), (Hint("a"),), (3, "a")], ids=["negative", "text", "default"])
def test_length_hint_rejects_as_in_eager(given):
    """The class and the text of the exception are Python's."""

    def f(x):
        try:
            return x + operator.length_hint(*given)
        except (TypeError, ValueError) as error:
            return x + 1, type(error), str(error)

    assert nbcompile.compile(f, backend="eager")(torch.ones(2))[1:] == f(torch.ones(2))[1:]


@pytest.mark.parametrize("given", [([1], -1), (5, -1), (5, 0), (5, 1), ([1, 2], 3)], ids=str)
def test_tee_rejects_as_in_eager(given):
    """``tee`` checks the number first and then the iterator; for zero copies it needs no iterator."""

    def f(x):
        try:
            return x + 1, [list(each) for each in itertools.tee(*given)]
        except (TypeError, ValueError) as error:
            return x + 1, type(error), str(error)

    assert nbcompile.compile(f, backend="eager")(torch.ones(2))[1:] == f(torch.ones(2))[1:]


def passes_no_key(items, key=None):
    return sorted(items, key=key), sorted(items, key=key, reverse=True), max(items, key=key)


def test_a_key_that_is_none_is_no_key():
    """``key=None`` is treated as a missing key, also if it is an argument that was not read before."""
    explained = nbcompile.explain(lambda x: (x + 1, passes_no_key([2, 3, 1])), backend="eager")(torch.ones(2))
    assert (explained.graph_count, explained.graph_break_count) == (1, 0)
    assert explained.result[1] == passes_no_key([2, 3, 1])


def test_the_owner_of_a_method_in_c():
    """``__self__`` of a bound method is the original object, with its current state."""

    def f(x):
        items = iter([1, 2, 3])
        following, listed = items.__next__, [1]
        first, append = following(), listed.append
        append(2)
        return x + first, list(following.__self__), append.__self__ is listed, listed

    explained = nbcompile.explain(f, backend="eager")(torch.ones(2))
    assert (explained.graph_count, explained.graph_break_count) == (1, 0)
    assert explained.result[1:] == f(torch.ones(2))[1:]


def test_pairs_of_inputs_are_sorted():
    """Numbers inside tuples that the program has not read before can be compared, as single numbers can."""

    def f(x, numbers):
        return x + 1, sorted((-number, index) for index, number in enumerate(numbers))

    explained = nbcompile.explain(f, backend="eager")(torch.ones(2), [3, 1, 2])
    assert (explained.graph_count, explained.graph_break_count) == (1, 0)
    compiled = nbcompile.compile(f)
    for numbers in ([3, 1, 2], [1, 3, 2], [3, 1, 2]):
        assert compiled(torch.ones(2), numbers)[1] == f(torch.ones(2), numbers)[1]


def test_a_named_tuple_class_belongs_to_the_module_that_makes_it():
    """``__module__`` of the class is the user's module, not that of the tracer, which calls ``namedtuple``."""
    check(
        "namedtuple('N', 'a b').__module__", "namedtuple('N', 'a b', module='other').__module__",
        "namedtuple('N', 'a b', defaults=[3])(1)._asdict()", "namedtuple('N', 'a b', module=None).__module__",
        namedtuple=collections.namedtuple, __name__="a_module",  # noqa: PYI024
    )  # fmt: skip


def test_functions_that_are_none():
    """``partial``, ``MethodType`` and ``defaultdict`` reject what is not callable while the program can catch it."""
    check(
        "partial(5)", "partial()", "partial(a=1)", "partial(partial(pow, 2))(3)", "method(5, 1)", "method(len, None)",
        "method(len)", "method(len, [1, 2])()", "defaultdict(5)", "defaultdict(None)['a']",
        partial=functools.partial, method=types.MethodType, defaultdict=collections.defaultdict,
    )  # fmt: skip
