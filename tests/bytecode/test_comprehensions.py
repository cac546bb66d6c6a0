"""Tests for nbcompile.bytecode.comprehensions: the instructions of an inlined comprehension."""

from __future__ import annotations

import sys
import types

import pytest

from nbcompile.bytecode.comprehensions import Comprehension, comprehension_at
from nbcompile.bytecode.disassemble import disassemble
from nbcompile.bytecode.superinstructions import expand_superinstructions

pytestmark = pytest.mark.skipif(sys.version_info < (3, 12), reason="3.11 calls a function for each comprehension")


def comprehensions(source: str) -> list[Comprehension]:
    scope: dict[str, object] = {}
    exec(source, scope)
    function = scope["f"]
    assert isinstance(function, types.FunctionType)
    read = expand_superinstructions(disassemble(function.__code__))
    found = (comprehension_at(read, index) for index in range(len(read)))
    return [each for each in found if each is not None]


@pytest.mark.parametrize(
    ("expression", "saved"),
    [
        ("[i for i in xs]", [("i",)]),
        ("{i: j for i, j in xs}", [("i", "j")]),
        ("[i for i in xs if i for j in i]", [("i", "j")]),
        ("[[j for j in i] for i in xs]", [("j", "i"), ("j",)]),
        ("[i for i in xs], [j for j in xs]", [("i",), ("j",)]),
        ("[lambda: i for i in xs]", [("i",)]),
    ],
)
def test_where_they_are(expression: str, saved: list[tuple[str, ...]]) -> None:
    """Each comprehension is found at its start, also a nested one, with the variables that it saves."""
    found = comprehensions(f"def f(xs):\n    made = {expression}\n    return made")
    assert [set(each.saved) for each in found] == [set(names) for names in saved]
    assert all(each.start < each.end for each in found)


@pytest.mark.parametrize("expression", ["xs", "list(i for i in xs)", "{i for i in xs}", "[last := i for i in xs]"])
def test_what_cannot_stand_alone(expression: str) -> None:
    """Generators, set comprehensions, and those that bind a variable of the function are not found."""
    assert not comprehensions(f"def f(xs):\n    made = {expression}\n    return made")
