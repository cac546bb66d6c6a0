"""Rounded division in float16 and bfloat16: eager rounds intermediate values, except if the divisor has one element."""

from __future__ import annotations

import pytest
import torch

import nbcompile

NARROW = (torch.float16, torch.bfloat16)
SPECIAL = (
    0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1, -1, 0.1, -0.1, 3, -3, 0.5, 1.5, 6e-8, -6e-8, 1e-38, 65504,
    -65504, 3e38, 2049, 255, -255,
)  # fmt: skip
DIVISIONS = {
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
    "fmod": torch.fmod,
    "/": lambda x, y: x / y,
}


def numbers(dtype):
    """Special values, integers, ordinary values, and random bit patterns."""
    random = torch.Generator().manual_seed(0)
    special = torch.tensor(SPECIAL, dtype=torch.float64).to(dtype)
    size = torch.rand(100, generator=random) * 6 - 3
    ordinary = (torch.randn(100, generator=random) * 10**size).to(dtype)
    whole = torch.randint(-300, 300, (100,), generator=random).to(dtype)
    patterns = torch.randint(-(2**15), 2**15, (100,), generator=random).to(torch.int16).view(dtype)
    return torch.cat([special, ordinary, whole, patterns])


def same_bits(found, wanted):
    assert found.dtype == wanted.dtype
    torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)
    is_number = ~wanted.isnan()
    assert torch.equal(found.signbit()[is_number], wanted.signbit()[is_number])


def pairs(dtype, name=""):
    given = within(numbers(dtype), name)
    return given.repeat_interleave(len(given)), given.repeat(len(given))


def within(given, name):
    """Values whose quotients fit into float32: for larger quotients eager's vectors give NaN as remainder."""
    return given[~((given.abs() > 1e18) | (given.abs() < 1e-18)) | (given == 0)] if name in ("%", "fmod") else given


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("name", DIVISIONS)
def test_two_tensors(name, dtype):
    """The quotient is rounded to the dtype before it is truncated; ``//`` rounds after each of its steps."""
    x, y = pairs(dtype, name)
    function = DIVISIONS[name]
    same_bits(nbcompile.compile(function)(x, y), function(x, y))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("name", DIVISIONS)
def test_a_divisor_of_one_element(name, dtype, dynamic):
    """A number, a scalar tensor, and a tensor with one element are float32 divisors."""
    x = within(numbers(dtype), name)
    divisors = [0.1, -0.3, 7, 0.0, float("inf"), torch.tensor(0.3), torch.tensor(2049), torch.tensor(-3)]
    divisors += [*x[:24:2], *x[1:300:23].split(1), torch.tensor([2049]), torch.tensor([[30001]])]

    def function(x, *divisors):
        return [DIVISIONS[name](x, divisor) for divisor in divisors]

    found = nbcompile.compile(function, dynamic=dynamic)(x, *divisors)
    for own, wanted in zip(found, function(x, *divisors), strict=True):
        same_bits(own, wanted)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("name", ["trunc", "floor", "//", "%", "/"])
def test_one_element_by_a_tensor(name, dtype):
    """A dividend that is a number is rounded to the dtype, as each quotient is; integer tensors are rounded, too."""
    y = within(numbers(dtype), name)
    whole = torch.randint(-3000, 3000, y.shape, generator=torch.Generator().manual_seed(1))
    dividends = [0.1, 2049, -7, torch.tensor(0.3), torch.tensor(2049), *y[:20:3], y[100:101]]

    def function(y, whole, *dividends):
        divide = DIVISIONS[name]
        return [
            *(divide(torch.as_tensor(dividend), y) for dividend in dividends),
            divide(whole, y),
            divide(y, whole + 4000),
        ]

    for own, wanted in zip(
        nbcompile.compile(function)(y, whole, *dividends), function(y, whole, *dividends), strict=True
    ):
        same_bits(own, wanted)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_in_place_and_into_a_result(dtype):
    """In-place operators and ``out=`` variants round as the functional operators do."""

    def function(x, y):
        results = [x.clone() for _ in range(5)]
        results[0].div_(y, rounding_mode="trunc")
        results[1].div_(y, rounding_mode="floor")
        results[2].floor_divide_(y)
        results[3] //= y
        results[4].div_(0.3, rounding_mode="trunc")
        out = torch.empty_like(x)
        torch.div(x, y, rounding_mode="trunc", out=out)
        return [*results, out, 3.0 // y, y.__rfloordiv__(7)]

    given = pairs(dtype)
    for own, wanted in zip(nbcompile.compile(function)(*given), function(*given), strict=True):
        same_bits(own, wanted)
