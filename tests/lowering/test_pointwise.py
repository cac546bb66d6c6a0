"""Operators that treat every element by itself, beside eager mode, in loops of our own and not in ATen's."""

import math

import pytest
import torch

import nbcompile

NUMBERS = {
    torch.uint8: torch.arange(0, 256).to(torch.uint8),
    torch.int8: torch.arange(-128, 128).to(torch.int8),
    torch.int16: torch.arange(-300, 300).to(torch.int16),
    torch.int32: torch.arange(-300, 300, dtype=torch.int32),
    torch.int64: torch.arange(-300, 300),
}
BOOLS = torch.tensor([True, False] * 20)


def in_loops(function, *arguments):
    """The result, if no operator was run by ATen."""
    explained = nbcompile.explain(function)(*arguments)
    kernels = [kernel for frame in explained.record.frames for kernel in frame.compiled_graph.kernels]
    assert [kernel.name for kernel in kernels if kernel.language == "aten"] == []
    assert kernels
    return explained.result


@pytest.mark.compiles
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("number", [0, 1, -1, 5, 127, 200])
def test_a_number_before_the_operator(dtype, number):
    """``3 & x``: the dtype is the tensor's, and the number wraps in it as in eager mode."""

    def function(x):
        return number & x, number | x, torch.bitwise_xor(number, x), number ^ x

    x = NUMBERS[dtype]
    for got, wanted in zip(in_loops(function, x), function(x), strict=True):
        assert got.dtype == wanted.dtype
        assert torch.equal(got, wanted)


@pytest.mark.compiles
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("number", [0, 1, 5, -7])
def test_a_number_is_shifted(dtype, number):
    """``1 << bits``, with each number of bits that the type has."""

    def function(bits):
        return number << bits, number >> bits

    bits = torch.arange(NUMBERS[dtype].element_size() * 8 - 1).to(dtype)
    for got, wanted in zip(in_loops(function, bits), function(bits), strict=True):
        assert got.dtype == wanted.dtype
        assert torch.equal(got, wanted)


@pytest.mark.compiles
def test_a_bool_before_the_operator():
    """Two bools make a bool, a bool and a number a number."""

    def function(x, y):
        return torch.bitwise_and(True, x), torch.bitwise_or(True, y), torch.bitwise_xor(3, x)

    for got, wanted in zip(in_loops(function, BOOLS, NUMBERS[torch.int64]), function(BOOLS, NUMBERS[torch.int64])):
        assert got.dtype == wanted.dtype
        assert torch.equal(got, wanted)


@pytest.mark.compiles
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_the_angle_of_a_real_number(dtype):
    """Of both zeros, both infinities and NaN, in vectors and in the tail."""
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, -math.nan, 1e-40, -1e-40, 2.5, -2.5]
    x = torch.tensor(special * 5).to(dtype)
    got, wanted = in_loops(torch.angle, x), torch.angle(x)
    assert got.dtype == wanted.dtype
    assert torch.equal(got.signbit()[~got.isnan()], wanted.signbit()[~wanted.isnan()])
    torch.testing.assert_close(got, wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.compiles
@pytest.mark.parametrize("dtype", [*NUMBERS, torch.bool], ids=str)
def test_the_angle_of_an_integer(dtype):
    """A float of the default dtype."""
    x = NUMBERS.get(dtype, BOOLS)
    got, wanted = in_loops(lambda x: torch.angle(x), x), torch.angle(x)
    assert got.dtype == wanted.dtype
    assert torch.equal(got, wanted)
