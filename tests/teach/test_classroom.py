"""nbcompile/teach/classroom.py: notebooks for nbgrader, and the report of a class."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest

from nbcompile.teach import classroom
from nbcompile.teach.exercise_table import exercises, find
from nbcompile.teach.progress_file import Progress
from nbcompile.tools.commands.command_line import main


def handed_in(folder: Path, student: str, *accepted: str, rejected: tuple[str, ...] = ()) -> None:
    entries = {name: {"attempts": 2, "hints": 1, "accepted": "2026-11-25T00:00:00+00:00"} for name in accepted}
    entries |= {name: {"attempts": 1, "hints": 0, "accepted": ""} for name in rejected}
    (folder / f"{student[:3]}.json").write_text(json.dumps({"schema": 1, "student": student, "entries": entries}))


def test_a_class_set_has_no_solutions(tmp_path):
    """Release notebooks have starters and checks, without lines of the solution; source notebooks have both."""
    paths = classroom.export(tmp_path, lecture=4)
    source, release = (nbformat.read(path, 4) for path in paths)
    assert [path.parts[-3] for path in paths] == ["source", "release"]
    code = {cell.metadata.get("nbgrader", {}).get("grade_id"): cell.source for cell in release.cells}
    for exercise in classroom.chosen(4):
        hidden = set(exercise.solution.split("\n")) - set(exercise.starter.split("\n")) - {""}
        lines = set("\n".join(cell.source for cell in release.cells).split("\n"))
        assert not {line for line in hidden if len(line) > 24} & lines, exercise.id
        assert exercise.starter.strip() in code[exercise.id]
        assert f'"{exercise.id}"' in code[f"{exercise.id}-check"]
    teacher = "\n".join(cell.source for cell in source.cells)
    assert teacher.count(classroom.BEGIN) == teacher.count(classroom.END) == len(classroom.chosen(4))
    assert find("operator-1").solution.strip() in teacher


def test_metadata_are_those_of_nbgrader():
    """Schema 3: each cell has a unique id; answers are editable, checks are locked and have points."""
    made = classroom.notebook("All", list(exercises().values()), solutions=True)
    nbformat.validate(made)
    found = [cell.metadata["nbgrader"] for cell in made.cells if "nbgrader" in cell.metadata]
    assert len({meta["grade_id"] for meta in found}) == len(found)
    allowed = {"schema_version", "grade_id", "grade", "solution", "locked", "task", "points"}
    for cell, meta in ((cell, cell.metadata.get("nbgrader")) for cell in made.cells):
        if meta is None:
            continue
        assert set(meta) <= allowed and meta["schema_version"] == 3
        assert ("points" in meta) == meta["grade"]
        assert meta["locked"] != meta["solution"]
        assert cell.cell_type == "code" or not meta["grade"]
    assert sum(meta.get("points", 0) for meta in found) == sum(exercise.points for exercise in exercises().values())


def test_the_solved_notebook_runs(tmp_path, monkeypatch):
    """With the solutions, each check of a lecture passes."""
    monkeypatch.setenv("NBCOMPILE_PROGRESS", str(tmp_path / "p.json"))
    for lecture in (1, 3):
        namespace = {}
        for number, cell in enumerate(classroom.notebook("x", classroom.chosen(lecture), solutions=True).cells):
            if cell.cell_type == "code":
                exec(compile(cell.source, f"<ipython cell {number}>", "exec"), namespace)


def test_a_report(tmp_path, capsys):
    """The report has a row per student with points per lecture, the unsolved exercises, and damaged files."""
    handed_in(tmp_path, "Ada <b>", "graph-1", "graph-2", "one-graph-1")
    handed_in(tmp_path, "Bob", "graph-1", rejected=("one-graph-1",))
    (tmp_path / "broken.json").write_text("{")
    found = classroom.report([tmp_path])
    assert [row[0] for row in found.rows()] == ["Ada <b>", "Bob"]
    assert found.rows()[0][1:4] == ["2", "0", "1"] and found.rows()[0][-1] == "3"
    assert found.hardest() == [("one-graph-1", 1, 2)]
    assert len(found.rejected) == 1 and "broken.json" in found.rejected[0]
    page = found.as_html()
    assert "Files that could not be read" in page and "broken.json is no progress file" in page
    assert "Ada &lt;b&gt;" in page and "<b>" not in page and "http" not in page
    assert main(["teach", "report", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert (
        "one-graph-1, A message on the way: not solved by 1 of 2 who tried" in printed.out
        and "broken.json" in printed.err
    )


@pytest.mark.parametrize("points", [(0, 0)])
def test_an_unknown_exercise_of_an_older_version_counts_nothing(points):
    """Entries of removed exercises are ignored."""
    student = Progress("x", {"gone-1": classroom.Entry(1, 0, "then")})
    assert student.points()[0] == points[0]
