"""The output of a cell."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import nbcompile
from nbcompile.record import codec
from nbcompile.views import html, text
from nbcompile.views.explanation import MOST_TEXT, Explanation
from tests.views import sample_records


@pytest.fixture
def shown():
    return Explanation(sample_records.simple())


def test_both_forms(shown):
    """A front end gets the picture and the text of the chosen sections."""
    assert shown._repr_mimebundle_() == {
        "text/plain": text.render(shown.record),
        "text/html": html.render(shown.record),
    }
    guards = Explanation(shown.record, ("guards",))
    assert repr(guards) == text.render(shown.record, "guards")


def test_one_type_for_the_magic_and_for_explain(shown):
    """The magic and explain() return one type: its parts are data, and show() gives other sections."""
    assert [len(each) for each in (shown.graphs, shown.breaks, shown.recompiles)] == [1, 0, 0]
    assert shown.guards == shown.record.frames[0].guards
    assert shown.kernels == shown.record.frames[0].compiled_graph.kernels
    assert repr(shown.show("guards")) == text.render(shown.record, "guards")
    assert shown.show("guards").show().sections is None
    with pytest.raises(ValueError, match="no section is named 'gards'"):
        shown.show("gards")
    seen = nbcompile.explain(lambda x: x + 1, backend="eager")(torch.ones(2))
    assert type(seen) is type(shown)
    assert seen.result.tolist() == [2, 2]


def test_the_text_of_an_output_is_short():
    """The text of a large record has the beginning of each part, and a hint; str() has all."""
    guards = sample_records.simple().frames[0].guards * 400
    record = sample_records.simple()
    seen = Explanation(replace(record, frames=(replace(record.frames[0], guards=guards),)))
    assert len(str(seen)) > 2 * MOST_TEXT
    assert len(repr(seen)) <= MOST_TEXT
    assert 'r.report("out.html") writes all of it' in repr(seen)
    assert "more lines" in repr(seen)


def test_save(shown, tmp_path):
    """The saved data reads back as an equal record."""
    assert codec.from_json(shown.save(tmp_path / "seen.json").read_text()) == shown.record


def test_report(shown, tmp_path):
    """The whole record can be written as one page."""
    page = shown.report(tmp_path / "seen.html").read_text()
    assert page.startswith("<!")
    assert len(page) > len(html.render(shown.record, "summary"))
