"""Kinds of exercises: the check of an answer for each.

    CHECKS["one graph"](exercise, f)      the sentence of acceptance, and the record; or a Rejection

In torch: nothing. Read next: nbcompile/teach/programs.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from nbcompile.record.model import Record
from nbcompile.teach import fusion, mini, programs, questions, residual
from nbcompile.teach.exercise_table import Exercise

Check: TypeAlias = Callable[[Exercise, Any], tuple[str, Record | None]]

CHECKS: Mapping[str, Check] = {
    "one graph": programs.check_one_graph,
    "entries": programs.check_entries,
    "arguments": programs.check_arguments,
    "operators": programs.check_operators,
    "custom operator": programs.check_custom_operator,
    "call": questions.check_call,
    "guard": questions.check_guard,
    "prediction": questions.check_prediction,
    "residual": residual.check,
    "fusion": fusion.check,
    "mini": mini.check,
}
"""Functions that check an answer, by the exercise's ``kind``."""

FACTS: Mapping[str, Callable[[Exercise], str]] = {"residual": residual.facts, "fusion": fusion.facts}
"""Functions that compute facts for the task's text: captured graphs, sizes of tensors."""


def with_facts(exercise: Exercise) -> Exercise:
    """The exercise with the facts that its task needs."""
    if exercise.kind not in FACTS:
        return exercise
    return replace(exercise, task=f"{exercise.task.strip()}\n\n{FACTS[exercise.kind](exercise)}")
