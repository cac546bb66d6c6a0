"""Special methods of operators: which operand answers first."""

from __future__ import annotations

import torch

import nbcompile


class Sum:
    """A base class with operators."""

    def __add__(self, other: object) -> str:
        return "add"

    def __radd__(self, other: object) -> str:
        return "reflected"

    def __lt__(self, other: object) -> str:
        return "less"

    def __gt__(self, other: object) -> str:
        return "greater"


class Same(Sum):
    """A subclass that does not override an operator."""


class Other(Sum):
    """A subclass that overrides the reflected method."""

    def __radd__(self, other: object) -> str:
        return "own"


SUM, SAME, OTHER = Sum(), Same(), Other()


def test_a_subclass_comes_first_where_it_overrides_the_reflected_method():
    """``base + derived`` calls the subclass first only in that case; a comparison always does."""

    def function(x):
        return x + 1, SUM + SAME, SUM + OTHER, SAME + SUM, SAME + OTHER, SUM < SAME, SUM < OTHER

    x = torch.ones(2)
    assert nbcompile.compile(function, fullgraph=True)(x)[1:] == function(x)[1:]
    assert function(x)[1:] == ("add", "own", "add", "add", "greater", "greater")
