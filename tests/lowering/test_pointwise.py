"""Pointwise operators, compared with eager mode, in generated loops without ATen."""

import math

import pytest
import torch

import nbcompile
from nbcompile.lowering import lower
from tests.support.lowered import externs, traced

NUMBERS = {
    torch.uint8: torch.arange(0, 256).to(torch.uint8),
    torch.int8: torch.arange(-128, 128).to(torch.int8),
    torch.int16: torch.arange(-300, 300).to(torch.int16),
    torch.int32: torch.arange(-300, 300, dtype=torch.int32),
    torch.int64: torch.arange(-300, 300),
}
BOOLS = torch.tensor([True, False] * 20)


def in_loops(function, *arguments):
    """The result; no operator may run through ATen."""
    explained = nbcompile.explain(function)(*arguments)
    kernels = [kernel for frame in explained.record.frames for kernel in frame.compiled_graph.kernels]
    assert [kernel.name for kernel in kernels if kernel.language == "aten"] == []
    assert kernels
    return explained.result


@pytest.mark.compiles
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("number", [0, 1, -1, 5, 127, 200])
def test_a_number_before_the_operator(dtype, number):
    """``3 & x`` has the tensor's dtype, and the number wraps in it as in eager mode."""

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
    """``1 << bits`` works for each bit count of the dtype."""

    def function(bits):
        return number << bits, number >> bits

    bits = torch.arange(NUMBERS[dtype].element_size() * 8 - 1).to(dtype)
    for got, wanted in zip(in_loops(function, bits), function(bits), strict=True):
        assert got.dtype == wanted.dtype
        assert torch.equal(got, wanted)


@pytest.mark.compiles
def test_a_bool_before_the_operator():
    """Two bools give a bool; a bool and a number give a number."""

    def function(x, y):
        return torch.bitwise_and(True, x), torch.bitwise_or(True, y), torch.bitwise_xor(3, x)

    for got, wanted in zip(in_loops(function, BOOLS, NUMBERS[torch.int64]), function(BOOLS, NUMBERS[torch.int64])):
        assert got.dtype == wanted.dtype
        assert torch.equal(got, wanted)


@pytest.mark.compiles
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_the_angle_of_a_real_number(dtype):
    """The angle of zeros, infinities and NaN of both signs equals eager's, in vectors and in the remainder."""
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, -math.nan, 1e-40, -1e-40, 2.5, -2.5]
    x = torch.tensor(special * 5).to(dtype)
    got, wanted = in_loops(torch.angle, x), torch.angle(x)
    assert got.dtype == wanted.dtype
    assert torch.equal(got.signbit()[~got.isnan()], wanted.signbit()[~wanted.isnan()])
    torch.testing.assert_close(got, wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.compiles
@pytest.mark.parametrize("dtype", [*NUMBERS, torch.bool], ids=str)
def test_the_angle_of_an_integer(dtype):
    """The angle of an integer is a float of the default dtype."""
    x = NUMBERS.get(dtype, BOOLS)
    got, wanted = in_loops(lambda x: torch.angle(x), x), torch.angle(x)
    assert got.dtype == wanted.dtype
    assert torch.equal(got, wanted)


DECIMALS = [1, 2, 5, 11, 0, -1, -2, -4, 39, -39, 400, -400, 2**63 - 1, -(2**63)]


def numbers_of(dtype):
    """All values of 16-bit dtypes; special values, halves and random bits of wider ones, not in whole vectors."""
    if dtype.itemsize == 2:
        return torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    generator = torch.Generator().manual_seed(0)
    integers = torch.int32 if dtype == torch.float32 else torch.int64
    limits = torch.iinfo(integers)
    bits = torch.randint(limits.min, limits.max, (4001,), generator=generator, dtype=integers).view(dtype)
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, -math.nan, 1e-40, -1e-40, 1e38, -0.01, -4.0]
    halves = torch.arange(-500, 500, dtype=dtype) / 8
    return torch.cat((torch.tensor(special, dtype=dtype), halves, halves * 100, halves / 100, bits))


@pytest.mark.compiles
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_rounding_to_decimals_has_eagers_bits(dtype):
    """Rounding to positive and negative decimals is bitwise equal to eager's, also if the power of ten is infinite."""

    def function(x):
        return [torch.round(x, decimals=decimals) for decimals in DECIMALS]

    x = numbers_of(dtype)
    for decimals, got, wanted in zip(DECIMALS, in_loops(function, x), function(x), strict=True):
        assert got.dtype == wanted.dtype
        torch.testing.assert_close(got, wanted, rtol=0, atol=0, equal_nan=True, msg=f"decimals={decimals}")
        numbers = ~wanted.isnan()
        assert torch.equal(got.signbit()[numbers], wanted.signbit()[numbers]), decimals


@pytest.mark.compiles
@pytest.mark.parametrize("dynamic", [False, True])
def test_rounding_to_decimals_is_fused(dynamic):
    """Rounding to decimals is fused with its neighbours; the derivative is zero, as in eager mode."""

    def function(x):
        return (x + 1).round(decimals=2) * 2

    x = torch.randn(5, 7, requires_grad=True)
    explained = nbcompile.explain(function, dynamic=dynamic)(x)
    kernels = [kernel.name for frame in explained.record.frames for kernel in frame.compiled_graph.kernels]
    assert kernels == ["forward.kernel0", "backward.kernel0"]
    assert torch.equal(explained.result, function(x))
    explained.result.sum().backward()
    assert torch.equal(x.grad, torch.zeros(5, 7))


@pytest.mark.parametrize("dtype", [*NUMBERS, torch.bool], ids=str)
@pytest.mark.parametrize("decimals", [0, 2])
def test_integers_are_not_rounded_to_decimals(dtype, decimals):
    """Rounding integers to decimals raises eager's error."""
    x = NUMBERS.get(dtype, BOOLS)
    with pytest.raises(NotImplementedError) as wanted:
        torch.round(x, decimals=decimals)
    with pytest.raises(NotImplementedError) as got:
        nbcompile.compile(lambda x: torch.round(x, decimals=decimals))(x)
    assert str(got.value) == str(wanted.value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_a_gpu_rounds_16_bits_to_decimals_by_aten(dtype):
    """On a GPU, ATen rounds 16-bit floats to decimals: only the CPU's intermediate rounding is known."""
    x = torch.ones(4, dtype=dtype)
    graph = traced(lambda x: torch.round(x, decimals=2), x)
    program = lower(graph, True, False, torch.device("cuda", 0))
    assert externs(program) == (["aten.round.decimals"] if dtype.itemsize == 2 else [])
    assert externs(lower(graph)) == []


@pytest.mark.compiles
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_a_product_and_a_sum_of_one_operator_are_rounded_once(dtype):
    """``add``, ``sub`` and ``rsub`` with ``alpha``, ``addcmul`` and ``lerp``, and lists of them, have eager's bits."""

    def function(a, b, c, weight):
        sums = torch.add(a, b, alpha=0.3), torch.sub(a, b, alpha=0.3), torch.rsub(a, b, alpha=0.3)
        products = torch.addcmul(a, b, c), torch.addcmul(a, b, c, value=-0.7)
        lerps = [torch.lerp(a, b, number) for number in (0.2, 0.5, 0.7, -0.3)]
        lists = [a], [b], [c]
        foreach = torch._foreach_add([a], [b], alpha=0.3), torch._foreach_addcmul(*lists, 0.7)
        return *sums, *products, *lerps, torch.lerp(a, b, weight), *foreach, torch._foreach_lerp([a], [b], 0.7)

    generator = torch.Generator().manual_seed(0)
    # Whole vectors: after the last one, eager rounds ``alpha * b`` to float16 and bfloat16.
    a, b, c, weight = (torch.randn(4096, generator=generator, dtype=torch.float64).to(dtype) for _ in range(4))
    for got, wanted in zip(in_loops(function, a, b, c, weight), function(a, b, c, weight), strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=0)
