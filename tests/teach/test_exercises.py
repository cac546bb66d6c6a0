"""nbcompile/teach/exercises/: solutions are accepted, and each wrong answer has its sentence."""

from __future__ import annotations

import pytest

from nbcompile.teach import kinds
from nbcompile.teach.exercise_table import define, exercises
from nbcompile.teach.session import judge
from nbcompile.teach.verdict import Verdict

ALL = tuple(exercises().values())
QUICK = 2.0
"""Seconds for an answer that never ends."""


def verdict(exercise, code, seconds=60.0) -> Verdict:
    try:
        answer = define(code, exercise.answer)
    except Exception as error:  # an answer may fail before it is checked: the notebook shows that by itself
        pytest.fail(f"{exercise.id}: the code of an answer raises {error!r}")
    return judge(exercise, answer, seconds)


def test_there_are_sixty_exercises():
    """There are at least ten kinds, and five exercises for each of six lectures, with unique names and titles."""
    assert len(ALL) >= 60
    assert {exercise.kind for exercise in ALL} == set(kinds.CHECKS)
    lectures = [exercise.lecture for exercise in ALL]
    assert set(lectures) == set(range(1, 7)) and min(map(lectures.count, lectures)) >= 5
    assert len({exercise.title for exercise in ALL}) == len({exercise.id for exercise in ALL}) == len(ALL)


@pytest.mark.parametrize("exercise", ALL, ids=lambda exercise: exercise.id)
def test_an_exercise(exercise, record_property):
    """The solution is accepted; at least three wrong answers are rejected, each with its sentence."""
    accepted = verdict(exercise, exercise.solution)
    assert accepted, accepted.says
    assert len(exercise.wrong) >= 3 and exercise.hints and exercise.task.strip()
    for wrong in exercise.wrong:
        rejected = verdict(exercise, wrong.answer, QUICK if "did not end" in wrong.says else 60.0)
        assert not rejected, f"accepted: {wrong.answer}"
        assert wrong.says in rejected.says
    for name, number in (("exercise", 1), ("accepted", 1), ("rejected", len(exercise.wrong))):
        record_property(name, number)
