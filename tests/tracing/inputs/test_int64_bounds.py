"""Bounds of the ints of a graph."""

from __future__ import annotations

import math

import pytest
import sympy

from nbcompile.tracing.inputs import int64_bounds
from nbcompile.tracing.inputs.int64_bounds import LARGEST, ROOM, SIZE

s, k = sympy.Symbol("s", integer=True), sympy.Symbol("k", integer=True)


def bound(expression):
    """With ``s`` a size and ``k`` an int that was promised to fit."""
    return int64_bounds.bound(expression, {s: SIZE, k: LARGEST}.__getitem__)


def test_a_sum_of_two_ints_has_room():
    """That is why they are promised to be smaller than the largest int64 by one bit."""
    assert bound(k + 1) <= ROOM and bound(2 * LARGEST + sympy.Integer(1)) <= ROOM
    assert bound(k + k) == 2 * LARGEST <= ROOM
    assert bound(k * k) > ROOM


def test_products_of_sizes_fit():
    """Two dims; of three it is not known."""
    assert bound(s * s) <= ROOM < bound(s**3)


@pytest.mark.parametrize("expression", [sympy.sin(s), sympy.Float(0.5) * s, s**k, sympy.Rational(1, 2)])
def test_what_is_not_known_has_no_bound(expression):
    """Another operator, a fraction, a power that may be huge."""
    assert bound(expression) == math.inf


def test_a_bound_is_about_the_absolute_value():
    """``-s`` is as large as ``s``; the larger of two is bounded by the larger bound."""
    assert bound(-s) == bound(s) == SIZE
    assert bound(sympy.Max(s, 7)) == SIZE


def test_the_promise_as_a_condition():
    """Python that the guard evaluates: the bounds themselves hold, the next int does not."""
    condition = int64_bounds.limits("n")
    assert all(eval(condition, {"n": n}) for n in (0, LARGEST, -LARGEST))
    assert not any(eval(condition, {"n": n}) for n in (LARGEST + 1, -LARGEST - 1))
