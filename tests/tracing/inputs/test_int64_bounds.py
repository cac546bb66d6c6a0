"""Bounds of the ints in a graph."""

from __future__ import annotations

import math

import pytest
import sympy

from nbcompile.tracing.inputs import int64_bounds
from nbcompile.tracing.inputs.int64_bounds import INT64_MAX, LARGEST, SIZE

s, k = sympy.Symbol("s", integer=True), sympy.Symbol("k", integer=True)


def bound(expression):
    """The bound of an expression of a size ``s`` and an int ``k`` in the guarded range."""
    return int64_bounds.bound(expression, {s: SIZE, k: LARGEST}.__getitem__)


def test_a_sum_of_two_ints_has_room():
    """The guarded range is one bit smaller than int64, so a sum of two ints fits."""
    assert bound(k + 1) <= INT64_MAX and bound(2 * LARGEST + sympy.Integer(1)) <= INT64_MAX
    assert bound(k + k) == 2 * LARGEST <= INT64_MAX
    assert bound(k * k) > INT64_MAX


def test_products_of_sizes_fit():
    """A product of two sizes fits; one of three sizes has no such guarantee."""
    assert bound(s * s) <= INT64_MAX < bound(s**3)


@pytest.mark.parametrize("expression", [sympy.sin(s), sympy.Float(0.5) * s, s**k, sympy.Rational(1, 2)])
def test_what_is_not_known_has_no_bound(expression):
    """Another operator, a fraction and a possibly huge power have no bound."""
    assert bound(expression) == math.inf


def test_a_bound_is_about_the_absolute_value():
    """``-s`` has the bound of ``s``; a maximum has the larger bound of its arguments."""
    assert bound(-s) == bound(s) == SIZE
    assert bound(sympy.Max(s, 7)) == SIZE


def test_the_guard_as_a_condition():
    """The condition of the guard holds for both bounds, and fails for the next ints."""
    condition = int64_bounds.limits("n")
    assert all(eval(condition, {"n": n}) for n in (0, LARGEST, -LARGEST))
    assert not any(eval(condition, {"n": n}) for n in (LARGEST + 1, -LARGEST - 1))
