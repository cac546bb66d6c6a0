"""The Triton functions of generated code, on a simulated GPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")

import nbcompile
from nbcompile.gpu import arithmetic

TARGET = {"target": "sm_90"}


@pytest.fixture
def inexact(monkeypatch):
    """Approximate quotients and reciprocals are one ulp nearer to zero, as PTX allows."""

    def nearer(opcode):
        exact = arithmetic.RESULTS[opcode]

        def result(instruction, *values):
            found = exact(instruction, *values)
            is_approximate = {"full", "approx"} & set(instruction.modifiers)
            return np.nextafter(found, np.zeros_like(found)) if is_approximate else found

        return result

    for opcode in ("div", "rcp"):
        monkeypatch.setitem(arithmetic.RESULTS, opcode, nearer(opcode))


def multiples(dtype=torch.float32):
    """Numbers, and divisors that mostly divide them: 0.1 for 0.3, and 3 for 6."""
    random = torch.Generator().manual_seed(0)
    divisors = torch.randn(4096, generator=random).to(dtype)
    divisors[:512] = torch.tensor([0.1, 0.3, 3.0, -7.0], dtype=dtype).repeat(128)
    factors = torch.randint(-40, 41, (4096,), generator=random).to(dtype)
    return divisors * factors, divisors


ROUNDED = {
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "floor_divide": torch.floor_divide,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "integer": lambda x, y: (x / y).to(torch.int32),
    "floored": lambda x, y: (x / y).floor(),
    "compared": lambda x, y: x / y >= (x / y).round(),
    "by a number": lambda x, y: torch.div(y * 0 + torch.arange(4096) * 3, 3.0, rounding_mode="trunc"),
    "reciprocal": lambda x, y: (y.abs() + 1).reciprocal(),
    "root": lambda x, y: (y.abs() + 1).rsqrt(),
}


def same_bits(function, *inputs):
    found = nbcompile.compile(function, options=TARGET)(*inputs)
    expected = function(*inputs)
    assert torch.equal(found, expected)
    assert torch.equal(found.signbit(), expected.signbit())


@pytest.mark.parametrize("name", ROUNDED)
def test_quotients_of_multiples(inexact, name):
    """With 6 / 3 off by one ulp, the truncated quotient would be 1."""
    same_bits(ROUNDED[name], *multiples())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["trunc", "floor", "floor_divide", "remainder", "fmod"])
def test_quotients_of_narrow_numbers(inexact, name, dtype):
    """Quotients of a narrow dtype are rounded to it in between, as in eager mode."""
    same_bits(ROUNDED[name], *multiples(dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["integer", "floored"])
def test_quotients_of_narrow_multiples(inexact, name, dtype):
    """If a product is exact in the narrow dtype, its quotient is the factor."""
    x, y = multiples(dtype)
    is_exact = x.double() == y.double() * (x.double() / y.double()).round()
    assert is_exact.sum() > 500
    same_bits(ROUNDED[name], x[is_exact], y[is_exact])
