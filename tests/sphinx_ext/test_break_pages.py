"""Pages of graph breaks are written before a build if they changed."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from nbcompile.sphinx_ext import break_pages
from nbcompile.tools import explain
from nbcompile.tracing import breaks


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Pages that contain only their ids: no example is compiled."""
    monkeypatch.setattr(explain, "page", lambda name: [explain.Part("heading", name)])


def test_a_page_for_each_kind_and_one_for_all(tmp_path):
    """The index has each page in its table and its contents, and each page exists."""
    break_pages.write_pages(SimpleNamespace(srcdir=str(tmp_path)))
    folder = tmp_path / "docs" / "graph_breaks"
    written = {path.name for path in folder.iterdir()}
    assert written == {"index.md", *(f"{name.lower()}.md" for name in breaks.KINDS)}
    index = (folder / "index.md").read_text()
    assert {f"{name}.md" for name in re.findall(r"<(nb\d+)>", index)} == written - {"index.md"}
    assert set(re.findall(r"\((nb\d+\.md)\)", index)) == written - {"index.md"}


def test_titles_do_not_break_the_table():
    """Each row has three cells, whatever characters the title of a kind has."""
    rows = [line for line in break_pages.index().splitlines() if line.startswith("| [")]
    assert len(rows) == len(breaks.KINDS)
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {4}


def test_a_page_that_did_not_change_is_not_written(tmp_path):
    """An unchanged page is not written, because Sphinx would read it again; a changed or missing one is."""
    break_pages.write(tmp_path)
    kept, changed, gone = tmp_path / "index.md", tmp_path / "nb0001.md", tmp_path / "nb0005.md"
    text = changed.read_text()
    changed.write_text("other")
    gone.unlink()
    before = kept.stat().st_mtime_ns
    break_pages.write(tmp_path)
    assert kept.stat().st_mtime_ns == before
    assert changed.read_text() == text and gone.exists()
