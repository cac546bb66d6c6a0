"""Complex numbers whose text means another number."""

import math

import pytest

from nbcompile.capture.complex_literals import ExactComplex, exact

INF, NAN = math.inf, math.nan


def bits(value: complex) -> list[tuple[float, float]]:
    """The real and the imaginary part with their signs; two NaNs are equal."""
    return [("nan" if math.isnan(part) else part, math.copysign(1, part)) for part in (value.real, value.imag)]


@pytest.mark.parametrize(
    "value",
    [
        complex(-0.0, 0.0),
        complex(0.0, -0.0),
        complex(-0.0, -0.0),
        complex(0.0, INF),
        complex(-INF, 1.0),
        complex(NAN, 2.0),
    ],
)
def test_text_is_evaluated_to_the_same_number(value):
    """The text in the graph preserves signs of zeros, infinities and NaN."""
    written = exact(value)
    assert type(written) is ExactComplex
    assert bits(eval(repr(written))) == bits(value)


@pytest.mark.parametrize("value", [1 + 2j, complex(0.0, 0.0), 3.5, -0.0, "text", None])
def test_what_is_written_well_stays_as_it_is(value):
    """A number with a correct text, and a value that is not complex, is returned unchanged."""
    assert exact(value) is value


def test_the_rule_is_needed():
    """The ``repr`` of complex(-0.0, 0.0) loses the sign of the zero."""
    assert bits(eval(repr(complex(-0.0, 0.0)))) != bits(complex(-0.0, 0.0))
