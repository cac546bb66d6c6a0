"""A student's progress in one file, which may be damaged, and which several notebooks write."""

from __future__ import annotations

import json
import pwd

import pytest

from nbcompile.teach.exercise_table import exercises
from nbcompile.teach.progress_file import Entry, Progress, ProgressFileError, note, progress, read


@pytest.fixture(autouse=True)
def file(tmp_path, monkeypatch):
    """A progress file in a folder that does not exist yet."""
    monkeypatch.setenv("NBCOMPILE_PROGRESS", str(tmp_path / "new" / "progress.json"))
    monkeypatch.setenv("NBCOMPILE_STUDENT", "Ada")
    return tmp_path / "new" / "progress.json"


def test_attempts_and_hints_are_added_up(file):
    """The first acceptance has its time; the number of hints never decreases, and a hint is no attempt."""
    assert progress() == Progress("Ada")
    note("one-graph-1")
    note("one-graph-1", hints=2)
    note("one-graph-1", hints=1)
    note("one-graph-1", accepted=True)
    first = progress().entries["one-graph-1"]
    assert (first.attempts, first.hints) == (2, 2) and first.accepted
    stored = json.loads(file.read_text())
    stored["entries"]["one-graph-1"]["accepted"] = "2020-01-01T00:00:00+00:00"
    file.write_text(json.dumps(stored))
    note("one-graph-1", accepted=True)
    note("one-graph-1")
    again = progress().entries["one-graph-1"]
    assert (again.attempts, again.accepted) == (4, "2020-01-01T00:00:00+00:00")
    assert [path.name for path in file.parent.iterdir()] == ["progress.json"], "no temporary file is left"


DAMAGED = [
    "\x00", "null", "[1]", '{"schema": 1}', "[" * 100_000,
    '{"schema": 1, "student": "x", "entries": []}',
    '{"schema": 1, "student": "x", "entries": {"a": {"tries": 1}}}',
    '{"schema": 1, "student": "x", "entries": {"one-graph-1": {"attempts": "3"}}}',
    '{"schema": 1, "student": "x", "entries": {"one-graph-1": {"hints": null}}}',
    '{"schema": 1, "student": "x", "entries": {"one-graph-1": {"accepted": true}}}',
]  # fmt: skip


@pytest.mark.parametrize("text", DAMAGED, ids=range(len(DAMAGED)))
def test_what_is_no_progress_file_is_put_aside(file, text):
    """An invalid file, also with values of the wrong type, is renamed, and a new one is begun."""
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(ProgressFileError, match=r"progress\.json is no progress file"):
        read(file)
    note("one-graph-1", accepted=True)
    assert progress().entries["one-graph-1"].attempts == 1
    assert file.with_suffix(".damaged.json").read_text() == text


def test_points_are_of_accepted_exercises_that_exist():
    """Only accepted, existing exercises have points; the lectures' points add up to the total."""
    one = exercises()["one-graph-1"]
    mine = Progress("Ada", {one.id: Entry(1, 0, "now"), "entries-1": Entry(5), "gone": Entry(1, 0, "now")})
    assert mine.points()[0] == mine.points(one.lecture)[0] == one.points
    lectures = {exercise.lecture for exercise in exercises().values()}
    assert sum(mine.points(lecture)[1] for lecture in lectures) == mine.points()[1]
    assert len(str(mine).splitlines()) == 1 + len(lectures)


@pytest.mark.parametrize("login", ["ada", ""])
def test_without_a_name_the_login_is_the_students(monkeypatch, login):
    """Without a login, as in a container, the name is empty, without an error."""
    for name in ("NBCOMPILE_STUDENT", "LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)

    def names(number):
        if not login:
            raise KeyError(f"getpwuid(): uid not found: {number}")
        return (login,)

    monkeypatch.setattr(pwd, "getpwuid", names)
    assert progress().student == (login or "student")
