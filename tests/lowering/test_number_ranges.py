"""Numbers that no element of the result's dtype can be: eager mode's error, not a number that wrapped around."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from tests.support.lowered import externs, programs

F = torch.nn.functional


def _assign(x, number):
    copy = x.clone()
    copy[1] = number
    return copy


CONVERTED = {
    "fill_": lambda x, n: x.clone().fill_(n),
    "full": lambda x, n: torch.full((2,), n, dtype=x.dtype),
    "full_like": torch.full_like,
    "new_full": lambda x, n: x.new_full((2,), n),
    "scalar_tensor": lambda x, n: torch.scalar_tensor(n, dtype=x.dtype),
    "where": lambda x, n: torch.where(x > 1, x, n),
    "masked_fill": lambda x, n: x.masked_fill(x > 1, n),
    "index_fill": lambda x, n: x.index_fill(0, torch.tensor([1]), n),
    "scatter": lambda x, n: x.scatter(0, torch.tensor([1]), n),
    "assignment": _assign,
    "pad": lambda x, n: F.pad(x, (1, 1), value=n),
    "threshold": lambda x, n: F.threshold(x, n, n),
    "hardtanh": lambda x, n: F.hardtanh(x, 0, n),
    "clamp": lambda x, n: x.clamp(n, n),
    "clamp of a minimum": lambda x, n: x.clamp(min=n),
    "clamp of a maximum": lambda x, n: x.clamp(max=n),
    "addcmul": lambda x, n: torch.addcmul(x, x, x, value=n),
    "power": lambda x, n: x**n,
}
NUMBERS = [300, -129, 70000, 2**40, -(2**63), 2.0**70, float("inf"), float("nan"), -1, 3]


def _result(call, *arguments):
    try:
        return call(*arguments)
    except (RuntimeError, ValueError) as error:
        return "rejected" if "overflow" in str(error) else str(error)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.float16], ids=str)
@pytest.mark.parametrize("name", CONVERTED)
def test_a_number_beyond_a_dtype(name, dtype):
    """Eager mode's error or result, with the number as a constant, and as an input of the graph."""
    call = CONVERTED[name]
    x = torch.arange(4).to(dtype)
    for number in NUMBERS:
        expected = _result(call, x, number)
        constant = _result(nbcompile.compile(lambda x, n=number: call(x, n), dynamic=False), x)
        as_input = _result(nbcompile.compile(lambda x, n: call(x, n), dynamic=True), x, number)
        for found in (constant, as_input):
            if isinstance(expected, str):
                assert found == expected, number
            else:
                torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


def test_a_number_of_a_decomposition():
    """A step of a decomposition that makes a tensor of a number is none of eager mode's."""
    x = torch.arange(4.0)
    assert torch.equal(nbcompile.compile(lambda x: torch.xlogy(x, 1e39))(x), torch.xlogy(x, 1e39))


def test_a_number_that_fits_is_generated():
    """A tensor that is filled with a number is a part of the kernel; one whose number does not fit is made by ATen."""
    x = torch.ones(4, dtype=torch.uint8)
    assert externs(programs(lambda x: x + torch.full_like(x, 250), x)[0]) == []
    assert externs(programs(lambda x: x + torch.full_like(x, 300), x)[0]) == ["aten.full_like.default"]
