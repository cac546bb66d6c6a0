"""Functions of the standard library that are traced where torch.compile breaks, or differs from eager."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import pytest
import torch

import nbcompile


class Hint:
    """An object that estimates its length."""

    def __init__(self, hint: Any) -> None:
        self.hint = hint

    def __length_hint__(self) -> Any:
        return self.hint


def test_length_hint_is_known_while_tracing():
    """Of iterators, generators, tensors and objects with ``__length_hint__``, in one graph."""

    def f(x):
        hint = operator.length_hint
        given = [hint(iter([1])), hint((i for i in ()), 7), hint(Hint(NotImplemented), 3), hint(Hint(4)), hint(x)]
        return x + sum(given), given

    explained = nbcompile.explain(f, backend="eager")(torch.ones(2))
    assert (explained.graph_count, explained.graph_break_count) == (1, 0)
    assert explained.result[1] == f(torch.ones(2))[1]
    assert torch.equal(explained.result[0], f(torch.ones(2))[0])


@pytest.mark.parametrize("given", [(Hint(-1),), (Hint("a"),), (3, "a")], ids=["negative", "text", "default"])
def test_length_hint_refuses_as_in_eager(given):
    """The exception's class and text are Python's own."""

    def f(x):
        try:
            return x + operator.length_hint(*given)
        except (TypeError, ValueError) as error:
            return x + 1, type(error), str(error)

    assert nbcompile.compile(f, backend="eager")(torch.ones(2))[1:] == f(torch.ones(2))[1:]


@pytest.mark.parametrize("given", [([1], -1), (5, -1), (5, 0), (5, 1), ([1, 2], 3)], ids=str)
def test_tee_refuses_as_in_eager(given):
    """It looks at the number first, then for an iterator; none is asked for if there are to be no copies."""

    def f(x):
        try:
            return x + 1, [list(each) for each in itertools.tee(*given)]
        except (TypeError, ValueError) as error:
            return x + 1, type(error), str(error)

    assert nbcompile.compile(f, backend="eager")(torch.ones(2))[1:] == f(torch.ones(2))[1:]
