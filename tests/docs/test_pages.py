"""The documentation's pages, without a build."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nbcompile.views.sections import SECTIONS

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / "notebooks").rglob("*.md")])
READ_ON_GITHUB = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]

PROGRAMMING_MODEL = (
    "core_concepts", "graph_breaks_index", "fullgraph_true", "common_graph_breaks", "nonstrict_trace", "custom_ops",
    "fullgraph_false", "where_to_apply_compile", "compiler_disable", "nested_graph_breaks", "skipped_functions",
    "non_strict_tracing_model", "recompilation", "dynamic_shapes", "observability", "reporting_issues",
)  # fmt: skip
"""The chapters that torch's own documentation of the programming model has."""


@pytest.mark.parametrize("page", [*PAGES, *READ_ON_GITHUB], ids=lambda page: page.name)
def test_named_paths_exist(page):
    """Each path of this repository on a page exists."""
    text = page.read_text()
    named = re.findall(r"\((?!https?:|#)([\w./-]+)(?:#[\w-]+)?\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    linked = [page.parent / name for name in named if re.search(r"\.(md|png|py)$", name)]
    folders = [ROOT / name for name in re.findall(r"`(nbcompile/[\w/]+(?:/|\.py))`", text)]
    inner = [ROOT / "nbcompile" / name for name in re.findall(r"\[`([a-z_]+(?:/[\w]*)*(?:/|\.py))`\]", text)]
    assert [str(path) for path in (*linked, *folders, *inner) if not path.exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sections_exist(page):
    """Each section that a cell shows exists."""
    for names in re.findall(r"--show ([a-z_,]+)", page.read_text()):
        assert set(names.split(",")) <= set(SECTIONS)


def test_the_tests_that_hold_a_view_are_there():
    """docs/design/views.md has a row for each test that it names, and each test exists."""
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
    """docs/reference.md lists all sections, in order."""
    assert ",".join(SECTIONS) in (ROOT / "docs/reference.md").read_text()


@pytest.mark.parametrize("name", PROGRAMMING_MODEL)
def test_chapters_of_the_programming_model(name):
    """Each chapter has three executed cells, a claim, and the differences from torch.compile."""
    text = (ROOT / "docs" / f"{name}.md").read_text()
    assert text.count("```{code-cell}") >= 3
    assert text.count("\nclaim(") >= 1
    assert "## In the real torch.compile" in text


def test_chapters_are_in_the_contents():
    """Each chapter is in a table of contents that the index leads to."""
    reached, left = set(), ["index"]
    while left:
        page = left.pop()
        reached.add(page)
        tables = re.findall(r"```{toctree}\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text(), re.DOTALL)
        listed = re.findall(r"^(\w+)$", "\n".join(tables), re.MULTILINE)
        left += [each for each in listed if each not in reached and (ROOT / "docs" / f"{each}.md").exists()]
    assert set(PROGRAMMING_MODEL) <= reached
