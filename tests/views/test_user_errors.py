"""Advice for exceptions, by class and text."""

from __future__ import annotations

import re
import string
from dataclasses import replace

import pytest

from nbcompile.record.model import Argument, Raised, StackLine
from nbcompile.views import user_errors
from nbcompile.views.user_errors import UserError
from tests.views import sample_records

ROWS = user_errors._ADVICE


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1] or row[0])
def test_a_row_can_be_filled(row):
    """Each field of an advice is a group of its pattern that always matches."""
    error, pattern, _, text = row
    groups = re.compile(pattern).groups
    places = [int(name) for _, name, _, _ in string.Formatter().parse(text) if name]
    assert all(place < groups for place in places) and error and text.rstrip().endswith((".", "?"))


def advice(error: str, message: str, operator: str = "") -> str:
    return user_errors._advice(UserError(error, message, None, -1, operator))


def test_the_first_row_that_fits_is_taken():
    """A row for an operator comes before a row for all; another class or text has no advice."""
    text = "mat1 and mat2 shapes cannot be multiplied (2x16 and 8x4)"
    assert "in_features" in advice("RuntimeError", text, "linear") and "transpose" in advice("RuntimeError", text, "mm")
    assert advice("ValueError", text) == "" == advice("RuntimeError", "something else")
    assert advice("NotImplementedError", "\"exp\" not implemented for 'Long'").startswith(
        "There is no such operator for tensors of type `Long`"
    )
    assert "ModuleList" in advice("NotImplementedError", "Module [ModuleList] is missing")


def test_exceptions_of_the_compiler_are_no_mistakes():
    """Exceptions of the compiler, and a missing exception, are no mistakes of the user."""
    record = sample_records.simple()
    assert user_errors.of(record) is None
    for error in user_errors.OWN_ERRORS:
        assert user_errors.of(replace(record, raised=Raised(error, "text", (StackLine("a.py", 1, "f", "x"),)))) is None


def test_a_line_of_python_is_marked():
    """The carets are below the innermost compiled line; without columns, below all of it."""
    record = sample_records.simple()
    frame = record.frames[0]
    stack = (
        StackLine(frame.file, frame.first_line, "f", frame.source.splitlines()[0]),
        StackLine("lib.py", 9, "g", "raise KeyError"),
    )
    found = user_errors.of(replace(record, raised=Raised("KeyError", "'a'", stack)))
    assert (found.error, found.location.line, found.position) == ("KeyError", frame.first_line, 0)
    assert found.location.column == 0 and "`.keys()`" in found.advice
    assert user_errors.of(replace(record, raised=Raised("KeyError", "'a'", ()))) is None, (
        "without a line there is nothing to show"
    )


def test_a_call_is_said_with_its_tensors():
    """A call is shown with its tensors, with devices only if they differ; without tensors there is no text."""
    x, w = (
        Argument(name, shape, "float32", "cpu") for name, shape in (("L['x']", ("2", "16")), ("L['w']", ("8", "4")))
    )
    number = Argument("k", None, "", "")
    assert (
        user_errors.call(UserError("E", "", None, -1, "mm", (x, number, w)))
        == "`mm` is called with `x` `f32[2, 16]`, `w` `f32[8, 4]`."
    )
    other = replace(w, device="cuda:0")
    assert user_errors.call(UserError("E", "", None, -1, "mm", (x, other))).endswith("`w` `f32[8, 4] on cuda:0`.")
    assert (
        user_errors.call(UserError("E", "", None, -1, "mm", (number,)))
        == ""
        == user_errors.call(UserError("E", "", None, -1))
    )
