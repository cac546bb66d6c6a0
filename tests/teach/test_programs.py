"""The programs of exercises: the text of a rejection."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nbcompile.record.model import Break, Record, StackLine
from nbcompile.teach import programs
from nbcompile.teach.attempt import Rejection
from tests.views import sample_records


def broken(*stack: StackLine) -> Break:
    return Break("0/0.b0", "NB0005", "Data-dependent branching", "The condition is data.\nMore.", (), "", stack)


def test_a_break_is_described_by_its_line():
    """A break has its line, its code and the first line of its explanation; without a stack only its title."""
    text = programs.describe_break(broken(StackLine("<answer>", 3, "f", "if x.sum() > 0:")))
    assert text == ("it breaks at line 3, `if x.sum() > 0:`, because: Data-dependent branching. The condition is data.")
    assert programs.describe_break(broken()) == "there is a graph break: Data-dependent branching."


def test_an_answer_with_a_break_is_rejected():
    """A break, or no compiled graph, is rejected; one graph without a break is accepted."""
    record = sample_records.simple()
    programs._expect_no_break(record)
    frame = replace(record.frames[0], breaks=(broken(),))
    with pytest.raises(Rejection, match="there is a graph break"):
        programs._expect_no_break(replace(record, frames=(frame,)))
    with pytest.raises(Rejection, match="not compiled at all: it has no operator"):
        programs._expect_no_break(Record("f"))


def test_operators_have_their_short_names():
    """The short names are in graph order, without placeholders and outputs."""
    names = programs.operators_of(sample_records.simple().frames[0])
    assert names
    assert not any("." in name for name in names)
