"""Leaf guards on containers: the class is compared before a method of the user could run."""

from __future__ import annotations

import pytest

from nbcompile.capture.guard import Guard, GuardKind
from nbcompile.capture.source import LocalSource
from nbcompile.guarding.encodings.table import leaf

K, X = GuardKind, LocalSource("x")


class Loud(list):
    """A list whose ``__len__`` must not be called."""

    def __len__(self):
        raise AssertionError("the user's code ran")


@pytest.mark.parametrize(("kind", "expected", "value", "other"), [
    (K.SEQUENCE_LENGTH, 2, [1, 2], [1]),
    (K.SEQUENCE_LENGTH, 2, [1, 2], Loud([1, 2])),
    (K.DICT_LENGTH, 1, {"a": 1}, {}),
    (K.DICT_KEYS, ("a", "b"), {"a": 1, "b": 2}, {"b": 2, "a": 1}),
    (K.DICT_KEYS, (1,), {1: 0}, {True: 0}),
    (K.DICT_CONTAINS, ("a", False), {}, {"a": 1}),
    (K.SET_CONTAINS, (1, True), {1}, {True}),
    (K.SET_MEMBERS, frozenset({1, "a"}), {1, "a"}, {True, "a"}),
    (K.SET_ORDER, (1,), {1}, {1.0}),
])  # fmt: skip
def test_a_leaf_distinguishes_similar_containers(kind, expected, value, other):
    """The predicate accepts the traced container, and rejects another one with equal items."""
    prepared = leaf(Guard(X, kind, expected), "L['x']", value)
    assert prepared.holds(value) and not prepared.holds(other)
