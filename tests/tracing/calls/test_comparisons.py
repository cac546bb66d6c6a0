"""Comparisons of numbers, containers and tensors."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from tests.support.oracle import require_same_answer
from tests.tracing.calls.test_operations import PROGRAMS, Pair


@pytest.mark.parametrize("name", PROGRAMS)
def test_comparisons(name):
    """Identical items are equal, also NaN; values that Python cannot compare raise a TypeError."""
    require_same_answer(PROGRAMS[name])


def test_a_tuple_is_neither_none_nor_another_tuple():
    """``is``, ``==`` and comparisons of lists distinguish a tuple from None and from another tuple."""

    def function(x, t, p, q):
        return x + 1, [t is None, t == None, t != None, None is t, p is q, [p] == [q], p is None, [p] == [p]]  # noqa: E711

    arguments = torch.ones(1), (1,), Pair(1, 2), Pair(3, 4)
    expected = [False, False, True, False, False, False, False, True]
    assert nbcompile.compile(function, fullgraph=True)(*arguments)[1] == function(*arguments)[1] == expected
