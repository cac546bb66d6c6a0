"""Delta debugging of program text."""

from __future__ import annotations

import pytest

from nbcompile.tools.diagnose import source

PROGRAM = """
import os
import sys

def helper(x):
    y = x + 1
    if y > 2:
        for i in range(3):
            boom(i)
    else:
        y = 0
    return y

class Unused:
    a = 1
    def method(self):
        return self.a

try:
    helper(2)
finally:
    os.getcwd()
print("end")
"""


def test_one_call_is_left():
    """Only the statement that matters is left; unnecessary blocks around it are removed, too."""
    assert (
        source.reduce(PROGRAM, lambda text: "boom(i)" in text and "def helper" in text)
        == "def helper(x):\n    boom(i)\n"
    )


def test_no_statement_can_be_left_out():
    """Statements that depend on one another remain, in order."""

    def runs_to_seven(text: str) -> bool:
        space: dict[str, int] = {}
        try:
            exec(text, space)
        except Exception:
            return False
        return space.get("total") == 7

    program = "a = 1\nb = 2\nc = 3\nd = 4\nunused = b * 9\ntotal = c + d\nif True:\n    e = total\n"
    assert source.reduce(program, runs_to_seven) == "c = 3\nd = 4\ntotal = c + d\n"


def test_every_text_that_is_tried_is_a_program():
    """The predicate gets only valid Python, and the program never becomes larger."""
    sizes = []

    def holds(text: str) -> bool:
        compile(text, "smaller", "exec")
        sizes.append(len(text))
        return "getcwd" in text

    assert source.reduce(PROGRAM, holds) == "os.getcwd()\n"
    assert max(sizes) <= len(PROGRAM)


def test_a_predicate_that_never_holds():
    """If the predicate is never true, nothing is removed."""
    small = source.reduce("a = 1\nb = 2\n", lambda text: False)
    assert small == "a = 1\nb = 2\n"


def test_what_is_no_program():
    """A text that is not Python is rejected."""
    with pytest.raises(SyntaxError):
        source.reduce("a = = 1", lambda text: True)
