"""Classroom: notebooks of exercises to hand out, and a report of what was handed in.

    notebook(lecture=3)                    for students: no solutions
    notebook(lecture=3, solutions=True)    for the teacher: nbgrader's `source/`
    report([Path("ada.json"), ...])        points of each student, lecture by lecture

The metadata of cells are nbgrader's, schema 3: its commands generate, collect and grade these notebooks. The notebooks
also work without nbgrader: a cell checks each answer.

In torch: nothing. Read next: nbcompile/tools/commands/teach.py
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from nbcompile.teach import kinds, progress_file
from nbcompile.teach.exercise_table import Exercise, exercises
from nbcompile.teach.progress_file import Entry, Progress, ProgressFileError

NBGRADER_SCHEMA = 3
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
"""The marks between which nbgrader strips code."""
HEAD = """# {title}

Write your answers into the cells that begin with the starter code, and run the cell below each: it says whether the
answer is accepted, and why not. `hint("{first}")` shows a hint."""


def chosen(lecture: int = 0, names: Sequence[str] = ()) -> list[Exercise]:
    """Exercises of a lecture (0: of all), or those with the given names, in their order."""
    known = exercises()
    if names:
        return [known[name] for name in names]
    return [exercise for exercise in known.values() if lecture in (0, exercise.lecture)]


def notebook(title: str, selected: Sequence[Exercise], *, solutions: bool = False) -> NotebookNode:
    """A notebook of exercises; with solutions, between nbgrader's marks, for the teacher."""
    cells = [
        new_markdown_cell(HEAD.format(title=title, first=selected[0].id), metadata=_metadata("introduction")),
        new_code_cell("import torch\n\nimport nbcompile\nfrom nbcompile.teach import check, hint"),
    ]
    for exercise in selected:
        shown = kinds.with_facts(exercise)
        task = f"## {shown.title}\n\n{shown.task.strip()}\n\n`{shown.id}`, {shown.points} point(s)"
        code = exercise.starter.strip()
        if exercise.answer not in code:
            code = f"{code}\n\n{exercise.answer} = ..."
        if solutions:
            code = f"{code}\n\n{BEGIN}\n{exercise.solution.strip()}\n{END}"
        test = f'verdict = check({exercise.answer}, "{exercise.id}")\nassert verdict, verdict.says\nverdict'
        cells += [
            new_markdown_cell(task, metadata=_metadata(f"{exercise.id}-task")),
            new_code_cell(code, metadata=_metadata(exercise.id, solution=True, locked=False)),
            new_code_cell(test, metadata=_metadata(f"{exercise.id}-check", points=exercise.points)),
        ]
    # nbformat generates random ids; with these, the same exercises result in the same file.
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})
    nbformat.validate(notebook)
    return notebook


def _metadata(name: str, *, solution: bool = False, locked: bool = True, points: int = 0) -> dict[str, object]:
    """Metadata of a cell for nbgrader. A cell with points is graded."""
    found: dict[str, object] = {
        "schema_version": NBGRADER_SCHEMA, "grade_id": name, "grade": bool(points), "solution": solution,
        "locked": locked, "task": False,
    }  # fmt: skip
    if points:
        found["points"] = points
    return {"nbgrader": found}


def export(folder: Path, lecture: int = 0, names: Sequence[str] = ()) -> list[Path]:
    """Write ``source/`` (with solutions) and ``release/`` (without) for a lecture, or for all; return the files."""
    groups = [lecture] if lecture or names else sorted({exercise.lecture for exercise in exercises().values()})
    written = []
    for number in groups:
        selected = chosen(number, names)
        title = f"Exercises of lecture {number}" if number else "Exercises"
        assignment = f"lecture-{number}" if number else "exercises"
        for kind, solutions in (("source", True), ("release", False)):
            path = folder / kind / assignment / f"{assignment}.ipynb"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(nbformat.writes(notebook(title, selected, solutions=solutions)), encoding="utf-8")
            written.append(path)
    return written


@dataclass(frozen=True, slots=True)
class ClassReport:
    """Progress of a class."""

    students: tuple[Progress, ...]
    rejected: tuple[str, ...]
    """A sentence for each file that could not be read."""

    @property
    def lectures(self) -> list[int]:
        """Numbers of the lectures."""
        return sorted({exercise.lecture for exercise in exercises().values()})

    def rows(self) -> list[list[str]]:
        """A row for each student: name, points of each lecture, total points."""
        return [
            [student.student, *(str(student.points(lecture)[0]) for lecture in self.lectures), str(student.points()[0])]
            for student in self.students
        ]

    def head(self) -> list[str]:
        """Names of the columns, with the maximum points."""
        empty = Progress("")
        lectures = [f"lecture {lecture} (of {empty.points(lecture)[1]})" for lecture in self.lectures]
        return ["student", *lectures, f"all (of {empty.points()[1]})"]

    def hardest(self) -> list[tuple[str, int, int]]:
        """Exercises by the share of attempts that failed: name, number of students who failed, number who tried."""
        found = []
        for name in exercises():
            tried = [entry for student in self.students if (entry := student.entries.get(name, Entry())).attempts]
            failed = [entry for entry in tried if not entry.accepted]
            if failed:
                found.append((name, len(failed), len(tried)))
        return sorted(found, key=lambda row: (-row[1] / row[2], -row[2]))[:10]

    def __str__(self) -> str:
        table = [self.head(), *self.rows()]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
        ]
        open_ones = [f"{name}, {exercises()[name].title}: {_share(row)}" for name, *row in self.hardest()]
        return "\n".join([*lines, *(["", "not solved yet:"] if open_ones else []), *open_ones])

    def as_html(self) -> str:
        """One self-contained page."""
        head = "".join(f"<th scope='col'>{html.escape(cell)}</th>" for cell in self.head())
        rows = "".join(
            f"<tr><th scope='row'>{html.escape(row[0])}</th>"
            + "".join(f"<td>{cell}</td>" for cell in row[1:]) + "</tr>"
            for row in self.rows()
        )  # fmt: skip
        items = "".join(
            f"<li><code>{name}</code>, {html.escape(exercises()[name].title)}: {_share(row)}</li>"
            for name, *row in self.hardest()
        )
        notes = f"<h2>Not solved yet</h2><ul>{items}</ul>" if items else ""
        if self.rejected:
            left_out = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in self.rejected)
            notes += f"<h2>Files that could not be read</h2><ul>{left_out}</ul>"
        return PAGE.format(head=head, rows=rows, notes=notes, count=len(self.students))


def _share(row: Sequence[int]) -> str:
    failed, tried = row
    return f"not solved by {failed} of {tried} who tried"


PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Class report</title>
<meta name="viewport" content="width=device-width"><style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }}
main {{ overflow-x: auto }} table {{ border-collapse: collapse }} caption {{ text-align: left; padding: .5rem 0 }}
th, td {{ border-bottom: 1px solid #8888; padding: .3rem .8rem; text-align: right }}
tr > :first-child {{ text-align: left }}
</style><main><h1>Class report</h1><table><caption>Points of {count} students</caption>
<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{notes}</main></html>
"""


def report(paths: Iterable[Path]) -> ClassReport:
    """The report of progress files, or of folders of them (``*.json``)."""
    files = [file for path in paths for file in (sorted(path.rglob("*.json")) if path.is_dir() else [path])]
    students, rejected = [], []
    for file in files:
        try:
            students.append(progress_file.read(file))
        except (ProgressFileError, OSError) as error:
            rejected.append(str(error))
    return ClassReport(tuple(sorted(students, key=lambda student: student.student)), tuple(rejected))
