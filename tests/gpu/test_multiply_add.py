"""``fma`` rounds once, compared with exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from nbcompile.gpu.multiply_add import fused
from nbcompile.gpu.values import as_bits, as_type

WIDTHS = {"f32": 32, "bf16": 16, "f16": 16}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def numbers(kind: str, values: list[float]) -> np.ndarray:
    return as_type(as_bits(np.array(values, np.float16 if kind == "f16" else np.float32), kind), kind)


def nearest(exact: Fraction, kind: str) -> float:
    """The nearest number of a dtype; of two equally near ones, the even one."""
    near = torch.tensor(float(exact), dtype=torch.float64).to(DTYPES[kind])
    bits = near.view(torch.int32 if WIDTHS[kind] == 32 else torch.int16)
    candidates = [(bits + step).view(DTYPES[kind]) for step in (-1, 0, 1)]
    finite = [(value.double().item(), int(bits + step)) for step, value in zip((-1, 0, 1), candidates, strict=True)]
    return min(finite, key=lambda pair: (abs(Fraction(pair[0]) - exact), pair[1] & 1))[0]


@pytest.mark.parametrize(("kind", "a", "b", "c"), [
    ("f32", 1 + 2**-12, 1 + 2**-12, 2**-60),
    ("f32", 1 + 2**-12, 1 + 2**-12, -(2**-60)),
    ("f32", -1 - 2**-12, 1 + 2**-12, 2**-60),
    ("f32", 2**-30, 1.5 * 2**-30, 1.0),
    ("bf16", 1 + 2**-4, 1 + 2**-4, 2**-60),
    ("bf16", 1 + 2**-4, 1 + 2**-4, -(2**-60)),
    ("bf16", 1 + 2**-7, 2**-9, 1.0),
    ("f16", 1 + 2**-6, 1 + 2**-5, 2**-24),
])  # fmt: skip
def test_a_sum_near_the_middle_of_two_numbers_is_rounded_once(kind, a, b, c):
    """If the product is halfway, the addend decides, even if it is too small for the wider dtype."""
    given = [numbers(kind, [value]) for value in (a, b, c)]
    exact = Fraction(float(given[0][0])) * Fraction(float(given[1][0])) + Fraction(float(given[2][0]))
    found = as_type(as_bits(fused(*given, kind), kind), kind)
    assert float(found[0]) == nearest(exact, kind)


@pytest.mark.parametrize("kind", WIDTHS)
def test_random_sums_are_rounded_once(kind):
    """Random products and sums of few digits, often halfway, are rounded once."""
    generator = np.random.default_rng(0)
    few = generator.integers(1, 2**6, (3, 2000)) * 2.0 ** generator.integers(-12, 3, (3, 2000))
    few *= generator.choice([-1, 1], few.shape)
    given = [numbers(kind, list(row)) for row in few]
    found = as_type(as_bits(fused(*given, kind), kind), kind)
    for a, b, c, result in zip(*given, found, strict=True):
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        assert float(result) == nearest(exact, kind)


def test_infinities_nan_and_zeros_are_those_of_ieee_754():
    """Infinities, NaN and zeros need no correction; a zero has the sign of the sum."""
    infinity, nan = float("inf"), float("nan")
    a, b, c = (
        numbers("f32", list(row))
        for row in zip(
            (infinity, 1.0, -infinity), (infinity, 0.0, 1.0), (nan, 1.0, 1.0), (-0.0, 1.0, -0.0), (2.0, 1.0, -2.0),
            (3e38, 3e38, 1.0), strict=True,
        )
    )  # fmt: skip
    with np.errstate(all="ignore"):
        found = fused(a, b, c, "f32")
    np.testing.assert_array_equal(found, np.array([nan, nan, nan, -0.0, 0.0, infinity], np.float32))
    assert list(np.signbit(found)[3:5]) == [True, False]
