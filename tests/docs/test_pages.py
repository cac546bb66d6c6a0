"""The pages of the documentation, without building them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nbcompile.views.sections import SECTIONS

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / "notebooks").glob("*.md")])
READ_ON_GITHUB = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


@pytest.mark.parametrize("page", [*PAGES, *READ_ON_GITHUB], ids=lambda page: page.name)
def test_named_paths_exist(page):
    """Every path of this repository that a page names is there."""
    text = page.read_text()
    named = re.findall(r"\((?!https?:|#)([\w./-]+)(?:#[\w-]+)?\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    linked = [page.parent / name for name in named if re.search(r"\.(md|png|py)$", name)]
    folders = [ROOT / name for name in re.findall(r"`(nbcompile/[\w/]+(?:/|\.py))`", text)]
    inner = [ROOT / "nbcompile" / name for name in re.findall(r"\[`([a-z_]+(?:/[\w]*)*(?:/|\.py))`\]", text)]
    assert [str(path) for path in (*linked, *folders, *inner) if not path.exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sections_exist(page):
    """Every section that a cell shows is a section."""
    for names in re.findall(r"--show ([a-z_,]+)", page.read_text()):
        assert set(names.split(",")) <= set(SECTIONS)


def test_the_tests_that_hold_a_view_are_there():
    """docs/design/views.md names them, each in a row with what it holds; none was renamed or taken away."""
    rows = [line for line in (ROOT / "docs/design/views.md").read_text().splitlines() if line.startswith("| ")]
    named = [
        re.findall(r"`(test_\w+)`", row.split("|")[2]) for row in rows if "---" not in row and "held by" not in row
    ]
    written = {
        name for path in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    assert len(named) > 40
    assert all(named)
    assert [name for each in named for name in each if name not in written] == []


def test_the_reference_lists_every_section():
    """docs/reference.md gives all sections, in order."""
    assert ",".join(SECTIONS) in (ROOT / "docs/reference.md").read_text()
