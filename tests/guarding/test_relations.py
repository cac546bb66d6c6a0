"""Tests of nbcompile/guarding/relations.py: the expected value of one subject in a condition."""

import pytest
import torch

import nbcompile
from nbcompile.guarding.relations import relation
from tests.support.watched import watch

SPLIT = {
    "L['n'] == 2": ("L['n']", "2"),
    "3 == L['n']": ("L['n']", "3"),
    "L['n'] != -1": ("L['n']", "!= -1"),
    "2 <= L['n']": ("L['n']", ">= 2"),
    "2 <= L['n'] <= 9": ("L['n']", "2 to 9"),
    "((L['n'] % 3)) > 0.5": ("L['n'] % 3", "> 0.5"),
}


@pytest.mark.parametrize("condition", SPLIT)
def test_a_condition_on_one_subject_is_split(condition):
    """The number may be on either side, or on both sides."""
    found = relation(condition, {})
    assert (found.subject, found.expected) == SPLIT[condition]
    assert found.value({"n": 4}) == eval(found.subject, {"L": {"n": 4}})


@pytest.mark.parametrize(
    "condition", ["L['a'] == L['b']", "2 < L['n'] <= 9", "L['d'][<class 'int'>] == 2", "f(L['n'])", "1 == 1", "a in b"]
)
def test_other_conditions_are_not_split(condition):
    """Conditions with two subjects or none, half-open ranges, and invalid Python are not split."""
    assert relation(condition, {}) is None


def loop(x, n):
    for _ in range(n):
        x = x.sin()
    return x


def test_a_miss_on_a_number_says_expected_and_actual():
    """The reason has the expected and the actual number, and the line of the loop, for a constant number."""
    nbcompile.reset()
    compiled = watch(loop)
    for n in (2, 3, 4):
        compiled(torch.ones(2), n)
    newest, oldest = compiled.record.frames[-1].failed_guards
    assert (newest.source, newest.expected, newest.actual) == ("L['n']", "3", "4")
    assert (oldest.source, oldest.expected, oldest.actual) == ("L['n']", "2", "4")
    assert newest.stack[-1].code == "for _ in range(n):"


def test_a_miss_on_a_size_says_expected_and_actual():
    """The reason has the remainder of the size, with the expected and the actual value."""
    nbcompile.reset()
    compiled = watch(lambda x: x.sin() if x.size(0) % 3 == 0 else x.cos())
    for size in (3, 4, 6):
        compiled(torch.ones(size))
    failed = compiled.record.frames[-1].failed_guards[0]
    assert (failed.source, failed.expected, failed.actual) == ("L['x'].size()[0] % 3", "!= 0", "0")
