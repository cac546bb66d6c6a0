"""Measured numbers as people read them: three digits, and never an exponent of ten.

    three_digits(0.012345)      0.0123
    three_digits(1234.5)        1234         `f"{1234.5:.3g}"` would be 1.23e+03
    with_unit(0.9997, (("s", 1.0), ("ms", 1e-3)))      1 s, and not 1e+03 ms

In torch: nothing. Read next: nbcompile/views/profile.py
"""

from __future__ import annotations

from collections.abc import Sequence


def three_digits(value: float) -> str:
    """Three significant digits; of a larger number all that are before the point."""
    short = f"{value:.3g}"
    return f"{value:.0f}" if "e+" in short else short


def with_unit(value: float, units: Sequence[tuple[str, float]]) -> str:
    """A value in the largest unit that is not larger than the value; the largest unit comes first."""
    for unit, size in units:
        # Rounded first: 999.7 ms are one second.
        if float(f"{value / size:.3g}") >= 1:
            return f"{three_digits(value / size)} {unit}"
    unit, size = units[-1]
    return f"{three_digits(value / size)} {unit}"
