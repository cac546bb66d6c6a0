"""Answers that are values: sources of guards, and numbers."""

from __future__ import annotations

import pytest

from nbcompile.teach import questions
from nbcompile.teach.attempt import Rejection
from nbcompile.teach.exercise_table import Exercise


@pytest.mark.parametrize(
    ("written", "name"),
    [("x", "x"), (" x ", "x"), ('L["x"]', "x"), ("L['x'].size()[0]", "x"), ("x.shape[1]", "x"), ("self.training", "self.training"),
     ('d["k"]', "d['k']"), ("d['k']", "d['k']"), ("x.dtype", "x"), ("G['N']", "N"), ("x.shape", "x"), ("x.shaped", "x.shaped")],
)  # fmt: skip
def test_a_value_is_named_in_several_ways(written, name):
    """A source may have either quotes, be written as in the guard or as in the program, with the attribute."""
    assert questions._as_written(written) == name


PROGRAMS = """
import torch
def p1(x): return x + 1
def p2(x):
    print("half way")
    return x * 2
calls = {"p1": [(torch.ones(2),)], "p2": [(torch.ones(2),)]}
"""


def prediction(counts: str) -> Exercise:
    return Exercise("a", "A", "prediction", 1, "", PROGRAMS, "", (), (), parameters={"counts": counts})


@pytest.mark.parametrize(
    ("counts", "key"), [("graphs", [1, 1]), ("operators", [1, 1]), ("breaks", [0, 1]), ("entries", [1, 2])]
)
def test_the_key_is_computed(counts, key, capsys):
    """The key is computed by compiling each program, without its output."""
    assert questions.keys(prediction(counts)) == key
    assert capsys.readouterr().out == ""


def test_numbers_are_compared_one_by_one(monkeypatch):
    """A bool is no number; the sentence names the wrong ones."""
    monkeypatch.setattr(questions, "keys", lambda exercise: [1, 2, 3])
    assert questions.check_prediction(prediction("graphs"), (1, 2, 3))[0] == "all 3 are right."
    for answer, says in [
        (5, "of type `int`"), (None, "got None"), ([1, True, 3], "got a list with a value of type `bool`"),
        ([1, 2], "expected 3 numbers, one for each program, got 2"), ([1, 3, 4], "1 of 3 are right. Look again at 2, 3"),
    ]:  # fmt: skip
        with pytest.raises(Rejection) as rejected:
            questions.check_prediction(prediction("graphs"), answer)
        assert says in str(rejected.value)


def test_an_answer_of_another_type():
    """A source must be a text, and a call must be a tuple."""
    with pytest.raises(Rejection, match="expected the name of a value"):
        questions.check_guard(prediction("graphs"), 3)
    with pytest.raises(Rejection, match="expected a tuple of arguments"):
        questions.check_call(prediction("graphs"), [1])
