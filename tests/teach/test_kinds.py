"""Each kind of exercise has a check; some tasks contain computed facts."""

from __future__ import annotations

from dataclasses import replace

from nbcompile.teach import kinds
from nbcompile.teach.exercise_table import exercises


def test_a_task_without_facts_is_the_table_s_own():
    """A task without facts is the table's object; one with facts is a copy."""
    given = exercises()
    plain = next(each for each in given.values() if each.kind not in kinds.FACTS)
    assert kinds.with_facts(plain) is plain
    fact = next(each for each in given.values() if each.kind == "fusion")
    before = fact.task
    shown = kinds.with_facts(fact)
    assert shown.task.startswith(before.strip()) and "bytes are read and written" in shown.task
    assert fact.task == before and replace(shown, task=before) == fact


def test_facts_are_for_kinds_that_are_checked():
    """Each facts function belongs to a kind with a check."""
    assert set(kinds.FACTS) < set(kinds.CHECKS)
