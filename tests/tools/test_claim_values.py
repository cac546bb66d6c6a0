"""The text about a claim that does not hold."""

from __future__ import annotations

import linecache
import sys

import pytest

from nbcompile.tools.claim_values import compared


def claim(says, holds):
    return "" if holds else compared(sys._getframe(1), 1)


def of(condition: str, **names) -> str:
    """The text about a condition, in a separate cell."""
    source = f"result = claim(\n    'it is so', {condition}\n)\n"
    file = f"<cell {condition}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope = {"claim": claim, **names}
    exec(compile(source, file, "exec"), scope)
    return scope["result"]


class Hostile:
    def __repr__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("len([1]) == 2", "`len([1]) == 2` does not hold: left = 1, right = 2"),
        ("1 < x < 3", "`1 < x < 3` does not hold: 1 = 1, x = 5, 3 = 3"),
        ("x == 5 and x > 9", "`x > 9` does not hold: left = 5, right = 9"),
        ("not x", "`not x` does not hold: x = 5"),
        ("x == 1 or x == 2", "`x == 1 or x == 2` does not hold: left = 5, right = 1, left = 5, right = 2"),
        ("all(y > 1 for y in items)", "`all((y > 1 for y in items))` does not hold: items = [1, 2]"),
        ("'a'.isdigit()", "`'a'.isdigit()` does not hold: 'a' = 'a'"),
        ("isinstance(x, str)", "`isinstance(x, str)` does not hold: x = 5, str = <class 'str'>"),
    ],
)
def test_the_part_that_is_false_is_said_with_its_values(condition, says):
    """The values are computed again: all parts of a chain, and the first false part of an ``and``."""
    assert of(condition, x=5, items=[1, 2]) == says


def test_a_value_that_cannot_be_shown_is_left_to_its_class():
    """A failing repr, or a long one, is replaced or cut."""
    assert "Hostile" in of("kept == 3", kept=Hostile())
    assert len(of("kept == 3", kept=list(range(10**6)))) < 300
    assert len(of("kept == 3", kept="x" * 10**6)) < 400


def test_a_source_that_is_gone_says_nothing():
    """If the source changed, is no Python, or is missing, the text is empty."""
    for text in ("", "(", "other = 1\n"):
        source = "result = claim('it is so', x == 1)\n"
        linecache.cache["<changed>"] = (len(text), None, text.splitlines(keepends=True), "<changed>")
        scope = {"claim": claim, "x": 2}
        exec(compile(source, "<changed>", "exec"), scope)
        assert scope["result"] == ""
