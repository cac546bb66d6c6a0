"""The user's function, line by line."""

from __future__ import annotations

from dataclasses import replace

from bs4 import BeautifulSoup

from nbcompile.record import links
from nbcompile.record.model import Mutation
from nbcompile.views import source
from nbcompile.views.markup import Limits
from tests.views import sample_records


def page(record, frame, limits=None) -> BeautifulSoup:
    return BeautifulSoup(str(source.render(record, frame, links.frame_links(frame), limits or Limits())), "html.parser")


def test_each_line_of_the_function_is_there():
    """Each line has its number and text; without styles a note looks like a comment."""
    record = sample_records.simple()
    frame = record.frames[0]
    lines = page(record, frame).select_one(".n-src").text.splitlines()
    written = frame.source.splitlines()
    assert len(lines) >= len(written)
    for number, text in enumerate(written, frame.first_line):
        shown = next(line for line in lines if line.lstrip().startswith(f"{number} "))
        assert text.rstrip() in shown
    assert any("  # " in line for line in lines)


def test_the_text_of_the_program_is_no_markup():
    """The program's text is escaped, also if it is not Python."""
    record = sample_records.simple()
    hostile = "def f(x):\n    return '</pre><script>' + x < (\n"
    frame = replace(record.frames[0], source=hostile)
    drawn = page(replace(record, frames=(frame,)), frame)
    assert drawn.find("script") is None and "'</pre><script>' + x < (" in drawn.text


def test_a_function_without_source():
    """Without a source, the section says so, and where the function is."""
    record = sample_records.simple()
    frame = replace(record.frames[0], source="")
    assert "The source of this function is not known." in page(replace(record, frames=(frame,)), frame).text


def test_a_long_function_is_cut():
    """A cut function states the number of omitted lines."""
    record = sample_records.simple()
    text = "def f(x):\n" + "".join(f"    y{number} = x\n" for number in range(50))
    frame = replace(record.frames[0], source=text)
    drawn = page(replace(record, frames=(frame,)), frame, Limits(rows=10))
    assert "y8 = x" in drawn.text and "y9 = x" not in drawn.text and "41 more" in drawn.text


def test_the_residual_program_and_what_it_replays():
    """Each side effect has a row; a frame without a residual program has no section."""
    frame = sample_records.simple().frames[0]
    assert source.residual(replace(frame, residual=""), Limits()) is None
    changed = replace(frame, residual="return f(<x>)", mutations=(Mutation("list", "L['xs']", "xs.append(<1>)"),))
    drawn = BeautifulSoup(str(source.residual(changed, Limits())), "html.parser")
    assert "return f(<x>)" in drawn.text and "xs.append(<1>)" in drawn.text and drawn.find("x") is None
