"""Tests for nbcompile.tracing.calls.dict_union: the class of ``left | right``."""

from __future__ import annotations

import collections
from typing import Any

import pytest
import torch

import nbcompile


class Plain(dict):
    """A subclass of dict without an operator of its own."""


class Ordered(collections.OrderedDict):
    """A subclass of a class that has the operator in C."""


class Defaults(collections.defaultdict):
    """A subclass of the other one."""


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
    """Class, order, and factory of ``left | right`` are eager mode's, for arguments and for dicts made inside."""

    def function(x: torch.Tensor, left: Any, right: Any) -> Any:
        return x + 1, left | right

    compiled = nbcompile.compile(function)
    for _ in range(2):
        ours, eager = (run(torch.ones(1), dicts()[left], dicts()[right])[1] for run in (compiled, function))
        assert type(ours) is type(eager)
        assert repr(ours) == repr(eager)


@pytest.mark.parametrize("pair", [(dict, Ordered), (Ordered, dict), (collections.Counter, collections.OrderedDict)])
def test_the_union_of_dicts_that_the_function_makes(pair: tuple[type, type]):
    """The same for dicts that are made inside."""

    def function(x: torch.Tensor) -> Any:
        return x + 1, pair[0]({"a": 1}) | pair[1]({"z": 2})

    ours, eager = (run(torch.ones(1))[1] for run in (nbcompile.compile(function), function))
    assert type(ours) is type(eager)
    assert repr(ours) == repr(eager)


class Reflected(dict):
    """A subclass with a reflected method, and no other one."""

    def __ror__(self, other: Any) -> str:
        return "reflected"


@pytest.mark.parametrize("left", [*dicts(), "the same class"])
def test_a_reflected_method_is_asked_where_python_asks_it(left: str):
    """The C code of the left operand answers first, unless the right one's class derives from the left one's."""

    def function(x: torch.Tensor, left: Any, right: Any) -> Any:
        return x + 1, left | right

    def given() -> tuple[torch.Tensor, Any, Any]:
        return torch.ones(1), Reflected(z=1) if left == "the same class" else dicts()[left], Reflected(y=2)

    nbcompile.reset()
    ours, eager = (run(*given())[1] for run in (nbcompile.compile(function), function))
    assert type(ours) is type(eager)
    assert repr(ours) == repr(eager)


class Refusing(dict):
    """A subclass whose own method takes nothing."""

    def __or__(self, other: Any) -> Any:
        return NotImplemented


def test_two_dicts_of_a_class_that_refuses():
    """A TypeError: of two operands of one class Python asks the left one alone; another dict's C code answers."""

    def function(x: torch.Tensor, left: Any, right: Any) -> Any:
        try:
            return x + 1, left | right
        except TypeError as error:
            return x - 1, str(error)

    compiled = nbcompile.compile(function)
    for right in (Refusing(b=2), {"b": 2}, collections.Counter("b")):
        ours, eager = (run(torch.ones(1), Refusing(a=1), right) for run in (compiled, function))
        assert torch.equal(ours[0], eager[0])
        assert ours[1] == eager[1]
