"""The section of guards."""

from __future__ import annotations

from dataclasses import replace

from bs4 import BeautifulSoup

from nbcompile.record import links
from nbcompile.record.model import Guard
from nbcompile.views import guards
from nbcompile.views.markup import Limits
from tests.views import sample_records

FRAME = sample_records.simple().frames[0]


def page(*given: Guard, limits: Limits | None = None) -> BeautifulSoup:
    frame = replace(FRAME, guards=given, symbols=())
    return BeautifulSoup(str(guards.render(frame, links.frame_links(frame), limits or Limits())), "html.parser")


def rows(drawn: BeautifulSoup) -> list[str]:
    return [row.find("th").text for row in drawn.select("tr")[1:]]


def guard(at: int, source: str, kind: str = "EQUALS_MATCH", **more) -> Guard:
    return Guard(f"0/0.g{at}", kind, source, f"{source or 'state'} == {at}", **more)


def test_values_come_first_and_the_state_of_the_process_last():
    """Guards on one value are together, and the process state is one last row, whatever its number of guards."""
    drawn = page(guard(0, "", "GRAD_MODE", words="gradients are on"), guard(1, "L['x']"), guard(2, "L['k']"),
                 guard(3, "L['x']"), guard(4, "", "GRAD_MODE", words="gradients are on"))  # fmt: skip
    assert rows(drawn) == ["x", "x", "k", "state of the process"]
    assert [bool(row.find("th").get("class")) for row in drawn.select("tr")[1:]] == [False, True, False, False]
    last = drawn.select("tr")[-1].text
    assert last.count("gradients are on") == 1 and "2 checks" in last


def test_marks_of_many_tensors_are_one_row():
    """The dynamic marks of many tensors are one row; a single one is a normal row."""
    marks = [guard(at, f"L['t{at}']", guards.MARKS) for at in range(300)]
    drawn = page(*marks, guard(300, "L['x']"))
    assert len(rows(drawn)) == 2 and "300 checks" in drawn.text
    assert rows(page(marks[0], guard(1, "L['x']"))) == ["t0", "x"]


def test_omitted_parts_are_counted():
    """A cut table states its length, and the process state is its last row."""
    drawn = page(*(guard(at, f"L['x{at}']") for at in range(5)), guard(9, "", "GRAD_MODE"), limits=Limits(rows=2))
    assert rows(drawn) == ["x0", "x1", "state of the process"] and "3 more" in drawn.text


def test_a_condition_of_the_user_is_no_markup():
    """Names and texts of the program are escaped."""
    drawn = page(Guard("0/0.g0", "EQUALS_MATCH", "L['<b>']", "L['<b>'] == '<i>&amp;'", words="<u>"))
    assert drawn.select("table b, table i, table u") == [] and "'<i>&amp;'" in drawn.text


def test_without_guards_there_is_no_section():
    """A frame without guards has no section."""
    frame = replace(FRAME, guards=())
    assert guards.render(frame, links.frame_links(frame), Limits()) is None
