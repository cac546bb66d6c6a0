"""notebooks/course/: six lectures with the same parts, and existing references. The docs build executes them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from nbcompile.sphinx_ext import course_table
from nbcompile.sphinx_ext.course_table import BOOK, count, rows
from nbcompile.teach.exercise_table import exercises

ROOT = Path(__file__).parents[2]
LECTURES = sorted((ROOT / "notebooks" / "course").glob("*.md"))
each_lecture = pytest.mark.parametrize("lecture", LECTURES, ids=lambda path: path.stem)


def cells(text: str) -> list[str]:
    return re.findall(r"```\{code-cell\}\n(.*?)```", text, re.DOTALL)


def test_there_are_six():
    """There are six lectures, numbered in order."""
    assert [path.name[0] for path in LECTURES] == list("123456")


@each_lecture
def test_a_lecture_has_its_parts(lecture):
    """A lecture has goals, pictures, claims, a question with a computed key, exercises, a summary, and reading."""
    text = lecture.read_text()
    assert "**Goals.**" in text
    for heading in ("Predict, then reveal", "Exercises", "Summary", "Read on in the source"):
        assert text.count(f"\n## {heading}\n") == 1
    assert sum("%%compile" in cell for cell in cells(text)) >= 4
    assert "%%compile --predict" in text
    assert text.count("\nclaim(") >= 3


@each_lecture
def test_exercises_of_a_lecture_exist(lecture):
    """A lecture has five to eight different exercises, all of this lecture."""
    names = dict.fromkeys(re.findall(r'^exercise\("([\w-]+)"\)$', lecture.read_text(), re.MULTILINE))
    assert 5 <= len(names) <= 8
    assert {exercises()[name].lecture for name in names} == {int(lecture.name[0])}


@each_lecture
def test_the_source_to_read_exists(lecture):
    """Each lecture ends with at least two existing paths of our source."""
    section = lecture.read_text().partition("## Read on in the source")[2]
    paths = re.findall(r"`(nbcompile/[\w/]+(?:\.py|/))`", section)
    assert len(paths) >= 2
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_containers_name_what_is_there():
    """devcontainer.json and Binder's files are valid, and install the pinned versions."""
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert "constraints.txt" in container["postCreateCommand"]
    assert "constraints.txt" in (ROOT / "binder" / "postBuild").read_text()
    assert (ROOT / "binder" / "apt.txt").read_text().split() == ["g++"]
    python = (ROOT / "binder" / "runtime.txt").read_text().strip()
    assert python == "python-3.11"


def test_a_page_of_the_book_has_its_parts():
    """Each of 16 pages has three executed cells, a picture, a claim, a prediction, and the differences from torch."""
    found = rows()
    assert len(BOOK) == 16 and len(found) == 16 + 1 + len(LECTURES)
    for row in found:
        assert row.cells >= 3 and row.pictures and row.claims and row.predictions, row
    for row in found[: len(BOOK)]:
        text = (ROOT / row.page).read_text()
        section = text.partition("\n## In the real torch.compile\n")[2]
        assert "```{differences}" in section, row.page
        assert "known_differences.md" in section, row.page


def test_the_table_counts_what_a_page_executes(tmp_path, monkeypatch):
    """A quoted cell, or a claim in prose, is not counted."""
    monkeypatch.setattr(course_table, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "# A\n\n```python\nclaim(1)\n```\n\nclaim(it)\n\n```{code-cell}\n%%compile --predict\nf(x)\n```\n\n"
        "```{code-cell}\n:tags: [hide-input]\nseen.show()\nclaim('a', True)\n```\n"
    )
    assert count("A", page) == course_table.CountedPage("A", "page.md", 2, 2, 1, 1)
