"""What a cell shows."""

from __future__ import annotations

import pytest

from nbcompile.jupyter.display import Shown
from nbcompile.record import codec
from nbcompile.views import html, text
from tests.views import sample_records


@pytest.fixture
def shown():
    return Shown(sample_records.simple())


def test_both_forms(shown):
    """A front end gets the picture and its text twin, of the chosen sections."""
    assert shown._repr_mimebundle_() == {
        "text/plain": text.render(shown.record),
        "text/html": html.render(shown.record),
    }
    guards = Shown(shown.record, ("guards",))
    assert repr(guards) == text.render(shown.record, "guards")


def test_save(shown, tmp_path):
    """The data can be kept, and read back as it was."""
    assert codec.from_json(shown.save(tmp_path / "seen.json").read_text()) == shown.record


def test_report(shown, tmp_path):
    """The whole record can be written as one page."""
    page = shown.report(tmp_path / "seen.html").read_text()
    assert page.startswith("<!")
    assert len(page) > len(html.render(shown.record, "summary"))
