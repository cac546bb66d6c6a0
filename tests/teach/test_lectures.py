"""notebooks/course/: each lecture done from start to end in a kernel, with right answers and with wrong ones.

``make course`` runs this. A student who errs gets a sentence from every exercise, and the next cell runs.
"""

from __future__ import annotations

import re
from pathlib import Path

import jupytext
import pytest
from nbformat.v4 import new_code_cell

from nbcompile.teach.exercise_table import find
from nbcompile.tools import tour

LECTURES = sorted((Path(__file__).parents[2] / "notebooks" / "course").glob("*.md"))
EMPTY = "# Your answer"
BAD = {  # values that anyone may answer, and a part of the sentence
    "None": "", "'an answer'": "", "torch.nn.Linear": "", "lambda: 1 / 0": "", "[]": "", "object()": "",
    "torch.compile(torch.sin)": "",
}  # fmt: skip
pytestmark = [pytest.mark.course, pytest.mark.timeout(1800)]


@pytest.fixture(autouse=True)
def progress(tmp_path, monkeypatch):
    """A separate progress file."""
    monkeypatch.setenv("NBCOMPILE_PROGRESS", str(tmp_path / "progress.json"))


def done(lecture: Path, answers):
    """Run a lecture with answers in its empty cells; return exercise, expected text, and text of each."""
    notebook = jupytext.read(lecture, fmt="md:myst")
    cells, asked, current = [], [], ""
    for cell in notebook.cells:
        if task := re.fullmatch(r'exercise\("([\w-]+)"\)', cell.source.strip()):
            current = task[1]
        if cell.cell_type != "code" or not cell.source.startswith(EMPTY):
            cells.append(cell)
            continue
        for code, says in answers(find(current)):
            asked.append((current, says, len(cells)))
            cells.append(new_code_cell(code))
    notebook.cells = [*cells, new_code_cell("print('alive', torch.ones(2).sum().item())")]
    tour.run_cells(notebook, timeout=300)
    assert "alive 2.0" in notebook.cells[-1].outputs[0].text
    return [(name, says, shown(notebook.cells[at])) for name, says, at in asked]


def shown(cell):
    """The verdict of a cell as text; its HTML has the same text."""
    [result] = [output for output in cell.outputs if output.output_type == "execute_result"]
    assert ("Accepted" in result.data["text/html"]) == result.data["text/plain"].startswith("✓")
    return result.data["text/plain"]


def right(exercise):
    yield f"{exercise.solution}\ncheck({exercise.answer})", "✓"


def wrong(exercise):
    for answer in exercise.wrong:
        limit = ", seconds=2" if "did not end" in answer.says else ""
        yield f"{answer.answer}\ncheck({exercise.answer}{limit})", answer.says
    for value, says in BAD.items():
        yield f"check({value})", says


each_lecture = pytest.mark.parametrize("lecture", LECTURES, ids=lambda path: path.stem)


@each_lecture
def test_right_answers_are_accepted(lecture, record_property):
    """Each exercise accepts its solution, in the order of the notebook."""
    found = done(lecture, right)
    assert len(found) >= 5
    assert [each for each in found if not each[2].startswith(f"✓ {each[0]}: ")] == []
    record_property("accepted in lectures", len(found))


@each_lecture
def test_wrong_answers_get_a_sentence_and_the_notebook_lives_on(lecture, record_property):
    """A typical wrong answer, or an invalid value, gets a sentence, and the next cell runs."""
    found = done(lecture, wrong)
    assert len(found) >= 5 * (3 + len(BAD))
    for name, says, said in found:
        assert said.startswith(f"✗ {name}: ") and says in said, (name, says, said)
        assert len(said.split()) >= 4 and "object at 0x" not in said, said
    record_property("rejected in lectures", len(found))
