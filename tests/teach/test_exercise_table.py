"""Exercises, as read from the tables."""

from __future__ import annotations

import traceback

import pytest
import torch

from nbcompile.teach.exercise_table import Exercise, ExerciseUnknown, as_html, define, find


def exercise(**fields) -> Exercise:
    return Exercise(
        "a", "A", "one graph", 1, "task", **{"starter": "", "solution": "", "hints": (), "wrong": (), **fields}
    )


def test_hidden_arguments_are_made_anew():
    """Each check gets equal arguments, random ones too, whatever an earlier answer did to them."""
    one = exercise(starter="def size(): return 3", calls="\n [(torch.rand(size()), [])]\n")
    first = one.arguments()
    first[0][1].append(1)
    first[0][0].zero_()
    torch.manual_seed(5)
    ((x, items),) = one.arguments()
    assert items == [] and torch.equal(x, one.arguments()[0][0]) and x.all()


def test_what_is_right_is_the_reference_or_the_starter():
    """The reference is defined again for each check, so that checks share no state."""
    started = exercise(starter="kept = []\ndef f(): return kept")
    assert started.reference_object() is not started.reference_object()
    started.reference_object()().append(1)
    assert started.reference_object()() == []
    given = exercise(starter="f = 1", reference="f = 2\ng = 3")
    assert (given.reference_object(), given.reference_object("g")) == (2, 3)


def test_code_of_an_exercise_has_lines_in_a_traceback():
    """Each definition has a separate file name, whose lines are in linecache."""
    f, g = (define("def f():\n    return 1 / 0\n", "f") for _ in range(2))
    assert f.__code__.co_filename != g.__code__.co_filename
    with pytest.raises(ZeroDivisionError) as raised:
        f()
    assert "return 1 / 0" in "".join(traceback.format_exception(raised.value))
    with pytest.raises(KeyError):
        define("x = 1", "f")


@pytest.mark.parametrize("name", ["", "one grap 1", None, 3, ["one-graph-1"], {}])
def test_a_name_that_is_no_exercise(name):
    """Any invalid name raises the same error."""
    with pytest.raises(ExerciseUnknown, match="there is no exercise"):
        find(name)


def test_a_sentence_as_html():
    """Text between backticks is code, and all text is escaped."""
    assert as_html("a < `b<c>` & `d`") == "a &lt; <code>b&lt;c&gt;</code> &amp; <code>d</code>"
    assert as_html("") == ""
    assert as_html("one ` alone") == "one ` alone", "a backtick without a second one is a character"
