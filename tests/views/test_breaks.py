"""Graph breaks, and the tree of frames after them."""

from __future__ import annotations

from dataclasses import replace

from bs4 import BeautifulSoup

from nbcompile.record.model import StackLine
from nbcompile.views import breaks
from nbcompile.views.markup import Limits
from tests.views import sample_records


def page(drawn) -> BeautifulSoup:
    return BeautifulSoup(str(drawn), "html.parser")


def test_a_break_is_numbered_once():
    """The break and the tree have the same label, in the tree at the frame that the break ended."""
    record = sample_records.save_break()
    text, tree = page(breaks.render(record, Limits())).text, page(breaks.tree(record, Limits())).text
    assert "B1" in text and "B1" in tree and "B2" not in text
    assert record.frames[0].breaks[0].title in text


def test_a_record_without_a_break_has_no_section():
    """A record without a break has neither the section nor a tree."""
    assert breaks.render(sample_records.simple(), Limits()) is None
    assert breaks.tree(sample_records.simple(), Limits()) is None
    assert breaks.render(sample_records.empty(), Limits()) is None


def test_a_break_that_ended_several_frames_is_said_above_the_tree():
    """A break that ended several frames appears once above the tree, with their number."""
    record = sample_records.nested()
    drawn = page(breaks.tree(record, Limits()))
    assert [cause.text[:2] for cause in drawn.select("details > div > p, details > p") if cause.text.startswith("B")][
        :1
    ] == ["B1"]
    assert page(breaks.render(record, Limits())).text.count("Graph breaks") == 1


def test_texts_of_a_break_are_texts():
    """Context, code and hints of the program are escaped."""
    record = sample_records.save_break()
    frame = record.frames[0]
    hostile = replace(frame.breaks[0], title="<i>", explanation="<i>", hints=("<i>",), context="<i>", reason="<i>",
                      stack=(StackLine("a.py", 1, "<i>", "<i>"),))  # fmt: skip
    drawn = page(
        breaks.render(replace(record, frames=(replace(frame, breaks=(hostile,)), *record.frames[1:])), Limits())
    )
    assert drawn.find("i") is None and drawn.text.count("<i>") >= 6


def test_carets_are_below_the_expression():
    """The carets are at the columns of the shown line; a line without columns has none."""
    shown = breaks.stack((StackLine("a.py", 3, "f", "y = save(x)", 4, 11), StackLine("b.py", 4, "g", "return y")))
    lines = page(shown).text.splitlines()
    at = next(at for at, line in enumerate(lines) if "save" in line)
    assert lines[at + 1] == lines[at].replace("y = ", "    ").replace("save(x)", "^" * 7)
    assert not any("^" in line for line in lines[at + 2 :])
    assert breaks.stack(()) is None


def test_omitted_parts_are_counted():
    """A cut list states its length, and the breaks keep their numbers."""
    record = sample_records.save_break()
    found = record.frames[0].breaks[0]
    many = tuple(
        replace(
            found, id=f"0/0.b{at}", title=f"break {at}", kind=f"NB{at:04}", stack=(StackLine("a.py", at, "f", "x"),)
        )
        for at in range(4)
    )
    drawn = page(breaks.render(replace(record, frames=(replace(record.frames[0], breaks=many),)), Limits(rows=2)))
    assert "B2" in drawn.text and "B3" not in drawn.text and "2 more" in drawn.text
