"""Calls: arguments by position, by name, and unpacked."""

from __future__ import annotations

import torch

import nbcompile
from tests.support.answers import check

BOTH = "f = lambda *a, **k: (a, k)\nreturn f({})"


def test_arguments_are_unpacked():
    """Any iterable and any mapping can be unpacked; a repeated keyword and a key that is not a string raise errors."""
    check(
        *(BOTH.format(given) for given in (
            "*[1], **{'b': 2}", "*'ab'", "*{1: 2}", "*5", "**5", "**{'a': 1}, **{'a': 2}", "**{1: 2}", "a=1, **{'a': 2}",
            "*(), **{}", "1, *[2], 3, *[4]", "**given", "**numbered",
        )),
        given={"x": 1}, numbered={3: 4},
    )  # fmt: skip


def test_what_is_called():
    """Values that are not callable raise Python's error; a class creates an object."""
    check(
        "(1)()",
        "None()",
        "'a'(2)",
        "int('5')",
        "(lambda: 3)()",
        "(lambda a, b=2: (a, b))(1)",
        "(lambda *, k: k)(k=1)",
    )


class Text(str):
    """A subclass of str."""

    __slots__ = ()


def test_a_keyword_of_a_subclass_of_str_is_left_to_python():
    """The keyword in the callee's ``**kwargs`` has the caller's class."""

    def given(**named):
        return named

    def function(x):
        return x + 1, given(**{Text("a"): 1}), dict(**{Text("a"): 2})

    _, *named = nbcompile.compile(function, backend="eager")(torch.ones(2))
    assert [[type(key) for key in each] for each in named] == [[Text], [Text]]
