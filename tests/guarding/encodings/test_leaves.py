"""Leaf guards on one value: a guard distinguishes values that ``==`` of Python does not."""

from __future__ import annotations

import math

import pytest

from nbcompile.capture.guard import Guard, GuardKind
from nbcompile.capture.source import LocalSource
from nbcompile.guarding.encodings.table import leaf

K, X = GuardKind, LocalSource("x")


@pytest.mark.parametrize(("kind", "expected", "value", "other"), [
    (K.EQUALS_MATCH, 0.0, 0.0, -0.0),
    (K.EQUALS_MATCH, (1,), (1,), (True,)),
    (K.BOOL_MATCH, True, True, 1),
    (K.NAN_MATCH, math.nan, math.nan, 0.0),
    (K.TYPE_MATCH, int, 1, True),
    (K.HASATTR, ("real", True), 1, "text"),
    (K.RANGE_ITERATOR_MATCH, (0, 3, 1), iter(range(3)), iter(range(4))),
    (K.TUPLE_ITERATOR_LEN, 2, iter((1, 2)), iter((1,))),
])  # fmt: skip
def test_a_leaf_distinguishes_similar_values(kind, expected, value, other):
    """The predicate accepts the traced value and rejects the other one; the text names the source."""
    prepared = leaf(Guard(X, kind, expected), "L['x']", value)
    assert prepared.holds(value) and not prepared.holds(other)
    assert "L['x']" in prepared.text


def test_functions_of_one_def_are_one():
    """A new closure of the same code passes the guard; another function does not."""

    def make(n):
        return lambda: n

    prepared = leaf(Guard(X, K.FUNCTION_MATCH, make(1)), "L['x']", make(1))
    assert prepared.holds(make(2)) and not prepared.holds(lambda: 1)
