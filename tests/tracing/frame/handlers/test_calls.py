"""Calls: arguments by position, by name, and unpacked."""

from __future__ import annotations

from tests.support.answers import check

BOTH = "f = lambda *a, **k: (a, k)\nreturn f({})"


def test_arguments_are_unpacked():
    """From any iterable and any mapping; a name twice, and a name that is no text, are refused."""
    check(
        *(BOTH.format(given) for given in (
            "*[1], **{'b': 2}", "*'ab'", "*{1: 2}", "*5", "**5", "**{'a': 1}, **{'a': 2}", "**{1: 2}", "a=1, **{'a': 2}",
            "*(), **{}", "1, *[2], 3, *[4]", "**given", "**numbered",
        )),
        given={"x": 1}, numbered={3: 4},
    )  # fmt: skip


def test_what_is_called():
    """Values that are no functions; a class makes an object."""
    check(
        "(1)()",
        "None()",
        "'a'(2)",
        "int('5')",
        "(lambda: 3)()",
        "(lambda a, b=2: (a, b))(1)",
        "(lambda *, k: k)(k=1)",
    )
