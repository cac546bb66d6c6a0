"""``fma`` of PTX as functions of NumPy arrays: a product and a sum with one rounding.

    a = b = 1 + 2**-12    a * b = 1 + 2**-11 + 2**-24, in the middle of two float32
    c = 2**-60            too small for float64, but it decides: up

Float64 holds the product of two float32. Its sum with the third number is rounded to odd: a sum that is not exact ends
in 1, and so is never in the middle of two narrower numbers. The rounding to the result's type is then that of the exact
sum.

In torch: nothing. Read next: nbcompile/gpu/arithmetic.py
"""

from __future__ import annotations

import numpy as np

from nbcompile.gpu.values import Array


def fused(a: Array, b: Array, c: Array, kind: str) -> Array:
    """``a * b + c``; one rounding to the type, but for float64 where errors of the parts are added."""
    if a.dtype == np.float64:
        return _of_float64(a, b, c)
    total, rest = _two_sum(a.astype(np.float64) * b, c.astype(np.float64))
    total = _to_odd(total, rest)
    if not kind.startswith("bf"):
        return total.astype(c.dtype)
    # A bfloat16 is a float32 here, which is rounded when it is written (values.as_bits).
    narrow = total.astype(np.float32)
    return _to_odd(narrow, total - narrow)


def _to_odd(rounded: Array, rest: Array) -> Array:
    """A sum that was rounded to the nearest, rounded to odd: ``rest`` is what it lost."""
    bits = rounded.view(f"i{rounded.dtype.itemsize}")
    neighbour = np.nextafter(rounded, np.copysign(np.inf, rest).astype(rounded.dtype))
    return np.where(np.isfinite(rest) & (rest != 0) & (bits & 1 == 0), neighbour, rounded)


def _of_float64(a: Array, b: Array, c: Array) -> Array:
    product, lost = _two_product(a, b)
    total, rest = _two_sum(product, c)
    rest = lost + rest
    # Where a part overflows its error is NaN, and the plain sum is right.
    return np.where(np.isfinite(rest), total + rest, total)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """A sum and its exact rounding error, for operands in any order of size (Knuth's TwoSum)."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """A product and its exact rounding error."""
    product = a * b
    (ah, al), (bh, bl) = _halves(a), _halves(b)
    return product, ((ah * bh - product) + ah * bl + al * bh) + al * bl


def _halves(value: Array) -> tuple[Array, Array]:
    # 2**27 + 1 (Veltkamp): halves of 26 bits, products of which are exact.
    large = value * 134217729.0
    high = large - (large - value)
    return high, value - high
