"""Exercise: one task as data, read from the tables in nbcompile/teach/exercises/.

    [[exercise]]                     one-graph.toml
    id = "one-graph-1"
    kind = "one graph"               how an answer is checked: nbcompile/teach/kinds.py
    task = "..."                     Markdown
    starter = "def f(x): ..."        the code to begin with; also the reference, unless `reference` is given
    calls = "[(torch.ones(3),)]"     hidden arguments, computed anew for each check
    solution = "..."                 a test checks that it is accepted, and that each `wrong` answer is rejected

In torch: nothing. Read next: nbcompile/teach/kinds.py
"""

from __future__ import annotations

import difflib
import functools
import html
import itertools
import linecache
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import nbcompile
from nbcompile.support.process_state import STATE, Lifetime

FOLDER = Path(__file__).parent / "exercises"
_numbers = STATE.add("teach.exercise_table._numbers", itertools.count(), Lifetime.PROCESS)


class ExerciseUnknown(ValueError):
    """Error for an unknown name of an exercise."""


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """A typical wrong answer, and a part of the reason for its rejection."""

    answer: str
    says: str


@dataclass(frozen=True, slots=True)
class Exercise:
    """A task, its hidden parts, and its answers."""

    id: str
    title: str
    kind: str
    lecture: int
    task: str
    starter: str
    solution: str
    hints: tuple[str, ...]
    wrong: tuple[WrongAnswer, ...]
    answer: str = "f"
    """Name of the object that is the answer."""
    calls: str = "[]"
    reference: str = ""
    """Code of the reference; "": the starter."""
    points: int = 1
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Further settings of the kind."""

    def reference_object(self, name: str = "") -> Any:
        """An object of the reference code, defined anew."""
        return define(self.reference or self.starter, name or self.answer)

    def arguments(self) -> list[tuple[Any, ...]]:
        """Hidden arguments of each call, created anew: an answer cannot modify them for the next check."""
        torch.manual_seed(0)
        namespace = new_namespace()
        exec(self.reference or self.starter, namespace)
        return list(eval(self.calls.strip(), namespace))

    def __str__(self) -> str:
        return f"{self.title}  [{self.id}]\n\n{self.task.strip()}\n\n{self.starter.strip()}\n"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Rich text for notebooks; plain text elsewhere."""
        del include, exclude  # part of IPython's protocol
        markdown = f"**{self.title}** (`{self.id}`)\n\n{self.task.strip()}\n\n```python\n{self.starter.strip()}\n```"
        return {"text/plain": str(self), "text/markdown": markdown}


def new_namespace() -> dict[str, Any]:
    """Globals of code that belongs to an exercise."""
    return {"__name__": "exercise", "torch": torch, "nbcompile": nbcompile}


def define(code: str, name: str) -> Any:
    """Run code that defines an object, and return the object.

    Raises:
        KeyError: the code does not define it.
    """
    # A file name of its own: the compiler stores dynamic sizes by file and line.
    file = f"<exercise {next(_numbers)}>"
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    namespace = new_namespace()
    exec(compile(code, file, "exec"), namespace)
    return namespace[name]


@functools.cache
def exercises() -> Mapping[str, Exercise]:
    """All exercises by name, in the order of the lectures."""
    found = [
        _read(entry)
        for path in sorted(FOLDER.glob("*.toml"))
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["exercise"]
    ]
    return {exercise.id: exercise for exercise in sorted(found, key=lambda exercise: exercise.lecture)}


def _read(entry: dict[str, Any]) -> Exercise:
    entry["hints"] = tuple(entry["hints"])
    entry["wrong"] = tuple(WrongAnswer(**wrong) for wrong in entry["wrong"])
    return Exercise(**entry)


def find(name: str) -> Exercise:
    """The exercise of a name.

    Raises:
        ExerciseUnknown: there is none; the message has similar names.
    """
    known = exercises()
    if not isinstance(name, str) or name not in known:
        close = difflib.get_close_matches(str(name), known, n=1)
        guess = f" Did you mean {close[0]!r}?" if close else ""
        raise ExerciseUnknown(f"there is no exercise {name!r}.{guess} `nbcompile.teach.exercises()` lists all.")
    return known[name]


def as_html(text: str) -> str:
    """One sentence with `code` in backticks as HTML."""
    parts = html.escape(text).split("`")
    if len(parts) % 2 == 0:
        parts[-2:] = ["`".join(parts[-2:])]  # the last one has no partner: it is a character
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))
