"""Tests for nbcompile.tracing.calls.dict_union: the class of ``left | right``."""

from __future__ import annotations

import collections
from typing import Any

import pytest
import torch

import nbcompile
from tests.support.answers import check


class Plain(dict):
    """A subclass of dict that does not define the operator."""


class Ordered(collections.OrderedDict):
    """A subclass of OrderedDict, which defines the operator in C."""


class Defaults(collections.defaultdict):
    """A subclass of defaultdict, which defines the operator in C."""


def dicts() -> dict[str, Any]:
    return {
        "dict": {"a": 1},
        "subclass of dict": Plain(b=2),
        "OrderedDict": collections.OrderedDict(c=3),
        "subclass of OrderedDict": Ordered(d=4),
        "defaultdict": collections.defaultdict(int, e=5),
        "subclass of defaultdict": Defaults(list, f=6),
        "Counter": collections.Counter("g"),
    }


@pytest.mark.parametrize("right", dicts())
@pytest.mark.parametrize("left", dicts())
def test_the_union_has_python_s_class(left: str, right: str):
    """``left | right`` of two arguments has the class, the order and the factory of eager mode."""

    def function(x: torch.Tensor, left: Any, right: Any) -> Any:
        return x + 1, left | right

    compiled = nbcompile.compile(function)
    for _ in range(2):
        ours, eager = (run(torch.ones(1), dicts()[left], dicts()[right])[1] for run in (compiled, function))
        assert type(ours) is type(eager)
        assert repr(ours) == repr(eager)


@pytest.mark.parametrize("pair", [(dict, Ordered), (Ordered, dict), (collections.Counter, collections.OrderedDict)])
def test_the_union_of_dicts_that_the_function_makes(pair: tuple[type, type]):
    """The union of two dicts that the function creates has the class and the items of eager mode."""

    def function(x: torch.Tensor) -> Any:
        return x + 1, pair[0]({"a": 1}) | pair[1]({"z": 2})

    ours, eager = (run(torch.ones(1))[1] for run in (nbcompile.compile(function), function))
    assert type(ours) is type(eager)
    assert repr(ours) == repr(eager)


class Reflected(dict):
    """A subclass that defines only the reflected method."""

    def __ror__(self, other: Any) -> str:
        return "reflected"


@pytest.mark.parametrize("left", [*dicts(), "the same class"])
def test_a_reflected_method_is_asked_where_python_asks_it(left: str):
    """The left operand's C code answers first, unless the right operand's class is a subclass of the left one's."""

    def function(x: torch.Tensor, left: Any, right: Any) -> Any:
        return x + 1, left | right

    def given() -> tuple[torch.Tensor, Any, Any]:
        return torch.ones(1), Reflected(z=1) if left == "the same class" else dicts()[left], Reflected(y=2)

    nbcompile.reset()
    ours, eager = (run(*given())[1] for run in (nbcompile.compile(function), function))
    assert type(ours) is type(eager)
    assert repr(ours) == repr(eager)


class Rejecting(dict):
    """A subclass whose own method returns NotImplemented."""

    def __or__(self, other: Any) -> Any:
        return NotImplemented


def test_two_dicts_of_a_class_that_rejects():
    """Python asks only the left one of two operands of one class, so the union raises a TypeError."""

    def function(x: torch.Tensor, left: Any, right: Any) -> Any:
        try:
            return x + 1, left | right
        except TypeError as error:
            return x - 1, str(error)

    compiled = nbcompile.compile(function)
    for right in (Rejecting(b=2), {"b": 2}, collections.Counter("b")):
        ours, eager = (run(torch.ones(1), Rejecting(a=1), right) for run in (compiled, function))
        assert torch.equal(ours[0], eager[0])
        assert ours[1] == eager[1]


class Rewritten(dict):
    """A subclass of dict whose items are not the ones that it stores."""

    def __iter__(self):
        return iter("xy")

    def __getitem__(self, key):
        return "item " + key

    def keys(self):
        return ["k"]


def test_the_items_of_an_own_iterator():
    """Of a subclass with an ``__iter__`` of its own the union has what ``keys`` and ``__getitem__`` give."""
    check(
        "Rewritten(a=1) | {'b': 2}", "{'b': 2} | Rewritten(a=1)", "Rewritten(a=1) | Rewritten(b=1)",
        "OrderedDict(a=1) | Rewritten(b=1)", "{**Rewritten(a=1)}", "dict(Rewritten(a=1))",
        Rewritten=Rewritten, OrderedDict=collections.OrderedDict,
    )  # fmt: skip
