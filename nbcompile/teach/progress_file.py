"""Progress: accepted exercises, with the numbers of attempts and hints, in one local file.

    progress()                                     a table of the lectures
    NBCOMPILE_PROGRESS=my.json                     another file; the default is in the user's data folder

In torch: nothing. Read next: nbcompile/teach/classroom.py
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from nbcompile.support import user_folders
from nbcompile.support.login_name import login_name
from nbcompile.teach.exercise_table import exercises

SCHEMA = 1


class ProgressFileError(ValueError):
    """A file is no progress file."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Attempts at one exercise."""

    attempts: int = 0
    hints: int = 0
    accepted: str = ""
    """Time of the first accepted answer, or ""."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Entries of one student."""

    student: str
    entries: dict[str, Entry] = field(default_factory=dict)

    def points(self, lecture: int = 0) -> tuple[int, int]:
        """Points of accepted answers, and of all exercises (of a lecture)."""
        chosen = [exercise for exercise in exercises().values() if lecture in (0, exercise.lecture)]
        mine = [exercise.points for exercise in chosen if self.entries.get(exercise.id, Entry()).accepted]
        return sum(mine), sum(exercise.points for exercise in chosen)

    def __str__(self) -> str:
        lines = [f"{self.student}: {self.points()[0]} of {self.points()[1]} points"]
        for lecture in sorted({exercise.lecture for exercise in exercises().values()}):
            done, most = self.points(lecture)
            bar = "#" * round(20 * done / most)
            lines.append(f"  lecture {lecture}  {bar:.<20}  {done} of {most}")
        return "\n".join(lines)

    __repr__ = __str__


def path() -> Path:
    """The file."""
    given = os.environ.get("NBCOMPILE_PROGRESS")
    return Path(given) if given else user_folders.user_data_folder() / "progress.json"


def progress() -> Progress:
    """Progress of the current user. A damaged file is renamed."""
    try:
        return read(path())
    except FileNotFoundError:
        return Progress(_student())
    except ProgressFileError:
        path().replace(path().with_suffix(".damaged.json"))
        return Progress(_student())


def read(file: Path) -> Progress:
    """Progress from a file.

    Raises:
        ProgressFileError: it is no progress file.
        FileNotFoundError: there is no file.
    """
    try:
        data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA:
            raise ValueError(f"schema {data['schema']}")
        return Progress(str(data["student"]), {name: _entry(entry) for name, entry in data["entries"].items()})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ProgressFileError(f"{file} is no progress file of nbcompile.teach: {error}") from error


def _entry(plain: dict[str, Any]) -> Entry:
    entry = Entry(**plain)
    for name, kind in (("attempts", int), ("hints", int), ("accepted", str)):
        if type(getattr(entry, name)) is not kind:
            raise TypeError(f"{name} is {getattr(entry, name)!r}")
    return entry


def note(exercise: str, *, accepted: bool = False, hints: int | None = None) -> None:
    """Record an attempt, or the number of hints that were shown."""
    mine = progress()
    entry = mine.entries.get(exercise, Entry())
    if hints is None:
        entry = replace(entry, attempts=entry.attempts + 1)
    else:
        entry = replace(entry, hints=max(entry.hints, hints))
    if accepted and not entry.accepted:
        entry = replace(entry, accepted=datetime.now().astimezone().isoformat(timespec="seconds"))
    _write(Progress(mine.student, {**mine.entries, exercise: entry}))


def _write(mine: Progress) -> None:
    target = path()
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps({"schema": SCHEMA, **asdict(mine)}, indent=1), encoding="utf-8")
    temporary.replace(target)


def _student() -> str:
    return os.environ.get("NBCOMPILE_STUDENT") or login_name() or "student"
