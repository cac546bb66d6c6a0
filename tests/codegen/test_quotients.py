"""Integer quotients and remainders equal eager's for all numbers: they are computed as floats where these are exact."""

import pytest
import torch

import nbcompile

FUNCTIONS = {
    "rounded down": lambda x, y: (torch.floor_divide(x, y), torch.remainder(x, y)),
    "towards zero": lambda x, y: (torch.div(x, y, rounding_mode="trunc"), torch.fmod(x, y)),
}
DTYPES = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


def edges(dtype):
    """All 8-bit numbers; of wider types powers of two and their neighbours, values in between, and the limits."""
    limits = torch.iinfo(dtype)
    if limits.bits == 8:
        return torch.arange(limits.min, limits.max + 1).to(dtype)
    powers = [sign * (1 << at) + near for at in range(limits.bits - 1) for near in (-1, 0, 1) for sign in (-1, 1)]
    found = [each for each in powers if limits.min <= each <= limits.max] + [limits.min, limits.max]
    generator = torch.Generator().manual_seed(0)
    return torch.cat(
        [torch.tensor(found, dtype=dtype), torch.randint(-1000, 1000, (37,), generator=generator).to(dtype)]
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_pair(name, dtype):
    """All pairs of these numbers equal eager's, also in vectors with a number that a float cannot represent."""
    numbers = edges(dtype)
    x, y = (each.flatten() for each in torch.meshgrid(numbers, numbers[numbers != 0], indexing="ij"))
    least = torch.iinfo(dtype).min
    keep = (x != least) | (y != -1) if dtype in (torch.int64, torch.int32) else torch.ones_like(x, dtype=torch.bool)
    x, y = x[keep].clone(), y[keep].clone()
    function = FUNCTIONS[name]
    for ours, eager in zip(nbcompile.compile(function)(x, y), function(x, y), strict=True):
        torch.testing.assert_close(ours, eager, rtol=0, atol=0)
    nbcompile.reset()


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
def test_quotients_beside_whole_numbers(dtype):
    """The quotient of a large dividend, one below a multiple, is not rounded up."""
    y = torch.arange(1, 100_001, dtype=dtype)
    most = 2**50 - 1 if dtype == torch.int64 else 2**31 - 1
    x = torch.div(most, y, rounding_mode="floor").to(dtype) * y - 1
    function = FUNCTIONS["rounded down"]
    for ours, eager in zip(nbcompile.compile(function)(x, y), function(x, y), strict=True):
        torch.testing.assert_close(ours, eager, rtol=0, atol=0)
    nbcompile.reset()


@pytest.mark.parametrize("divisor", [1, -1, 7, -16, 2**40])
def test_a_divisor_that_is_known(divisor):
    """A constant divisor gives the quotients of a tensor of divisors."""
    x = torch.cat([edges(torch.int64), torch.arange(-40, 40)])
    function = lambda x: (x // divisor, x % divisor, torch.fmod(x, divisor))  # noqa: E731
    x = x[x != -(2**63)]
    for ours, eager in zip(nbcompile.compile(function)(x), function(x), strict=True):
        torch.testing.assert_close(ours, eager, rtol=0, atol=0)
    nbcompile.reset()


@pytest.mark.parametrize("size", [(3,), (1000,), (40, 50)], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_divisor_that_is_zero(name, size):
    """A zero divisor is eager's error at any index; masked lanes may have a zero divisor."""
    function = nbcompile.compile(FUNCTIONS[name])
    x, y = torch.arange(torch.Size(size).numel()).reshape(size), torch.full(size, 7)
    assert torch.equal(function(x, y)[0], x // 7)
    for place in (0, -1):
        zero = y.clone()
        zero.view(-1)[place] = 0
        with pytest.raises(RuntimeError, match="^ZeroDivisionError$"):
            function(x, zero)
    assert torch.equal(function(x, y)[1], x % 7)
    nbcompile.reset()


def test_divisors_that_all_lanes_share_and_columns():
    """A divisor may be uniform in a row, in the whole tensor, and in column sums."""

    def function(x, rows, one):
        return x // rows[:, None] + x % one, (x // one).sum(0), (x // rows[:, None]).sum(1)

    x, rows, one = torch.arange(21 * 33).reshape(21, 33), torch.arange(1, 22), torch.tensor(5)
    compiled = nbcompile.compile(function)
    for ours, eager in zip(compiled(x, rows, one), function(x, rows, one), strict=True):
        torch.testing.assert_close(ours, eager, rtol=0, atol=0)
    for given in ((x, rows * (rows != 21), one), (x, rows, one * 0)):
        with pytest.raises(RuntimeError, match="^ZeroDivisionError$"):
            compiled(*given)
    nbcompile.reset()
