"""Exercises that extend a copy of the mini compiler: the answer is a function that installs an extension.

    def install(mini):
        mini.C_OF["exp"] = "exp({a})"
        mini.NAMES[torch.exp] = "exp"

The copy is built for each check from the cells of docs/minicompiler.md, and must still compile its own programs right.

In torch: nothing. Read next: docs/minicompiler.md
"""

from __future__ import annotations

import functools
import io
import re
import types
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import torch

from nbcompile.record.model import Record
from nbcompile.teach import attempt
from nbcompile.teach.attempt import Rejection
from nbcompile.teach.comparison import describe_difference
from nbcompile.teach.exercise_table import Exercise, define

_PLACES = (
    Path(__file__).parent / "minicompiler.md",  # in a wheel (pyproject.toml)
    Path(__file__).parents[2] / "docs" / "minicompiler.md",
)
DEMONSTRATION = "\nmini = minicompile(f)\n"
"""The line from which on the page runs its compiler."""

OWN_PROGRAM = """
def own_program(x):
    return (torch.relu(x + 1) * 2).sum(-1)
"""


@functools.cache
def _code() -> types.CodeType:
    page = next(path for path in _PLACES if path.exists()).read_text(encoding="utf-8")
    cells = re.findall(r"```\{code-cell\}\n(.*?)```", page, re.DOTALL)
    text = "\n".join(cells).partition(DEMONSTRATION)[0]
    return compile(text, "<mini compiler>", "exec")


def load() -> types.ModuleType:
    """A copy of the mini compiler."""
    module = types.ModuleType("mini")
    module.__dict__["__name__"] = "nbcompile.teach.mini"  # dataclasses look their module up
    with redirect_stdout(io.StringIO()):
        exec(_code(), vars(module))
    return module


def check(exercise: Exercise, answer: Any) -> tuple[str, Record | None]:
    """Install the answer, and check it by the exercise's ``verify`` and the page's own program."""
    install = attempt.expect_function(answer, exercise.answer)
    mini = load()
    attempt.attempt(install, (mini,))
    verify = exercise.reference_object("verify")
    try:
        verify(mini, functools.partial(expect_compiled, mini))
    except AssertionError as error:
        raise Rejection(str(error)) from error
    vars(mini)["BACKEND"] = mini.interpret  # the program tests results, not C code
    expect_compiled(mini, define(OWN_PROGRAM, "own_program"), torch.arange(-4.0, 4.0).reshape(2, 4))
    return "the mini compiler accepts it, and its results are right.", None


def expect_compiled(mini: types.ModuleType, program: Any, *arguments: Any) -> None:
    """Check that the copy compiles a program without a fallback, and that its result equals eager mode's.

    Raises:
        Rejection: the check fails.
    """
    name = program.__name__
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            actual = mini.minicompile(program)(*arguments)
        except Exception as error:
            text = (str(error).splitlines() or [""])[0]
            raise Rejection(f"with your change, `{name}` raises {type(error).__name__}: {text}") from error
    fallbacks = [str(warning.message) for warning in caught if "falls back" in str(warning.message)]
    if fallbacks:
        raise Rejection(f"`{name}` is not compiled: {fallbacks[0]}")
    broken = [entry.trace.exit.reason for entry in mini.LOG if isinstance(entry.trace.exit, mini.Break)]
    if broken:
        raise Rejection(f"`{name}` has a graph break: {broken[0]}.")
    difference = describe_difference(actual, program(*arguments))
    if difference:
        raise Rejection(f"with your change, the result of `{name}` is wrong: {difference}.")
