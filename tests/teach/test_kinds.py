"""Each kind of exercise has a check; some tasks are completed by facts."""

from __future__ import annotations

from dataclasses import replace

from nbcompile.teach import kinds
from nbcompile.teach.exercise_table import exercises


def test_a_task_without_facts_is_the_table_s_own():
    """The object itself; of the others a copy, and the table is not changed."""
    given = exercises()
    plain = next(each for each in given.values() if each.kind not in kinds.FACTS)
    assert kinds.with_facts(plain) is plain
    fact = next(each for each in given.values() if each.kind == "fusion")
    before = fact.task
    shown = kinds.with_facts(fact)
    assert shown.task.startswith(before.strip()) and "bytes are read and written" in shown.task
    assert fact.task == before and replace(shown, task=before) == fact


def test_facts_are_for_kinds_that_are_checked():
    """A name that is misspelt would never be asked for."""
    assert set(kinds.FACTS) < set(kinds.CHECKS)
