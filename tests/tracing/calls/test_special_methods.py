"""Special methods of operators: which operand answers first."""

from __future__ import annotations

import torch

import nbcompile
from tests.support.answers import check


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


class Plain:
    """A class without annotations and special methods."""


class Half:
    """A class that compares with its own kind alone."""

    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return self.number == other.number if isinstance(other, Half) else NotImplemented


def test_unequal_of_objects():
    """``object.__ne__`` inverts ``__eq__``, and does not know what that does not know."""
    check(
        "Plain().__ne__(1), kept.__ne__(kept), kept.__ne__(Plain()), kept != Plain(), kept != kept",
        "Half(1).__ne__(Half(2)), Half(1).__ne__(3), Half(1) != 3, Half(1) != Half(1)",
        "object.__ne__(kept, kept), object.__ne__(kept, 1)",
        Plain=Plain, Half=Half, kept=Plain(),
    )  # fmt: skip


def test_a_missing_attribute_that_each_class_has():
    """Looking for ``__annotations__`` of an object leaves the class as it is: ``hasattr`` of the class would add them."""

    class Bare:
        pass

    compiled = nbcompile.compile(lambda x: (x + 1, hasattr(Bare(), "__annotations__")), backend="eager")
    assert [compiled(torch.ones(1))[1] for _ in range(2)] == [False, False]
    assert "__annotations__" not in vars(Bare)
