"""Numbers in readable form."""

from __future__ import annotations

import math

import pytest

from nbcompile.support.digits import three_digits, with_unit

UNITS = (("s", 1e6), ("ms", 1e3), ("µs", 1.0))


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.012345, "0.0123"), (1.0, "1"), (99.96, "100"), (999.4, "999"), (999.6, "1000"), (1234.5, "1234"),
     (-2.5e6, "-2500000"), (math.inf, "inf"), (math.nan, "nan"), (1e-7, "1e-07")],
)  # fmt: skip
def test_a_large_number_has_no_exponent(value, text):
    """A large number has no exponent; only a very small one does."""
    assert three_digits(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0 µs"), (0.25, "0.25 µs"), (999.4, "999 µs"), (999.6, "1 ms"), (999_499.0, "999 ms"), (999_700.0, "1 s"),
     (61.5e6, "61.5 s"), (4321.4e6, "4321 s"), (1234.0, "1.23 ms")],
)  # fmt: skip
def test_the_unit_fits_the_rounded_number(value, text):
    """A number that is rounded up to a thousand has the next unit."""
    assert with_unit(value, UNITS) == text
