"""Tests for nbcompile.tracing.variables.known_values: containers of constants as operands of ``%``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch

import nbcompile


class Shown:
    """An object with its own ``__str__``."""

    def __str__(self) -> str:
        return "shown"


class Number(int):
    """A number with its own ``__str__``."""

    def __str__(self) -> str:
        return "number"


class Numbers(NamedTuple):
    """Two numbers."""

    a: int
    b: int


class Pair(Numbers):
    """A named tuple whose constructor takes one number."""

    def __new__(cls, number: int) -> Any:
        return super().__new__(cls, number, number)


class Told(Numbers):
    """A named tuple with its own ``__repr__``, which counts its calls."""

    asked = 0

    def __repr__(self) -> str:
        Told.asked += 1
        return "told"


SHOWN, TENSOR, CYCLE, PAIR = Shown(), torch.ones(2), [1], Pair(1)
CYCLE.append(CYCLE)  # type: ignore[arg-type]

TEXTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "a list": lambda x: "%s" % [1, 2],
    "bytes": lambda x: b"%r" % [1],
    "a set": lambda x: "%s" % {1},
    "a dict with a list": lambda x: "%(a)s %(b)d" % {"a": [1], "b": 2},
    "a tuple with a list": lambda x: "%s %s" % ([1], (2,)),
    "a list of sizes": lambda x: "%s" % [x.size(0)],
    "a list for a number": lambda x: "%d" % [1],  # noqa: PLE1307
    "a list for nothing": lambda x: "abc" % [1],  # noqa: F507
    "an object": lambda x: "%s" % SHOWN,
    "an object in a tuple": lambda x: "%s-%d" % (SHOWN, 1),
    "an object in a dict": lambda x: "%(a)s" % {"a": SHOWN},
    "an object for nothing": lambda x: "abc" % SHOWN,  # noqa: F507
    "a number with a text": lambda x: "%s %d" % (Number(3), Number(4)),
    "a tensor": lambda x: "%s" % TENSOR,
    "a list of tensors": lambda x: "%s" % [TENSOR],
    "a list in itself": lambda x: "%s" % CYCLE,
    "keys": lambda x: "%s" % {1: 2}.keys(),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_of_values(name: str):
    """``%`` gives eager mode's text or TypeError."""

    def function(x: torch.Tensor) -> Any:
        try:
            return x + 1, TEXTS[name](x)
        except TypeError as error:
            return x - 1, str(error)

    nbcompile.reset()  # each text is compiled: above the recompile limit, the function would run in eager mode
    ours, eager = (run(torch.ones(2, 3)) for run in (nbcompile.compile(function), function))
    assert torch.equal(ours[0], eager[0])
    assert ours[1] == eager[1]


def test_a_text_of_a_list_is_one_graph():
    """Known values do not break the graph."""
    x = torch.ones(2)
    assert nbcompile.compile(lambda x: (x + 1, "%s" % [1, [2]]), fullgraph=True)(x)[1] == "[1, [2]]"


def test_a_named_tuple_that_is_made_of_something_else():
    """``__new__`` of the class does not run again for the text."""
    x = torch.ones(2)
    assert nbcompile.compile(lambda x: (x + 1, "%s" % (PAIR,)), fullgraph=True)(x)[1] == "Pair(a=1, b=1)"


def test_a_text_of_a_named_tuple_is_made_in_each_call():
    """``__repr__`` of the class runs as often as in eager mode."""
    told = Told(1, 2)
    compiled = nbcompile.compile(lambda x: (x + 1, "%s" % (told,), str([told])))
    for calls in range(1, 4):
        Told.asked = 0
        assert compiled(torch.ones(2))[1:] == ("told", "[told]")
        assert Told.asked == 2, calls
