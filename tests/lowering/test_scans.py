"""Scans give eager's values along rows and columns, fused with their neighbours, with nan and ties."""

from __future__ import annotations

import math

import pytest
import torch

import nbcompile
from nbcompile.ir.kernel import Carry, Nest
from nbcompile.tools.fuzz.compare import same_bits
from tests.support import targets
from tests.support.lowered import check, programs

torch.manual_seed(0)
x = torch.randn(5, 37)
ties = torch.tensor([[1.0, 3.0, 3.0, math.nan, 3.0, math.nan, 9.0], [-math.inf, -math.inf, 2.0, 2.0, 1.0, 5.0, 5.0]])
n = torch.randint(-3, 4, (6, 9))

SCANS = {
    "sum": lambda x, dim: x.cumsum(dim),
    "prod": lambda x, dim: x.cumprod(dim),
    "max": lambda x, dim: list(x.cummax(dim)),
    "min": lambda x, dim: list(x.cummin(dim)),
    "logsumexp": lambda x, dim: x.logcumsumexp(dim),
}


@pytest.mark.parametrize("kind", SCANS)
@pytest.mark.parametrize("dim", [0, 1])
def test_every_kind_along_every_dimension(kind, dim):
    """Program, schedule, C++ and Triton give eager's values, with nan, infinities and ties."""
    for tensor in (x, ties, x.to(torch.bfloat16), *([] if kind == "logsumexp" else [n, n > 0])):
        check(lambda t: SCANS[kind](t, dim), tensor)


def test_what_is_around_shares_the_loop():
    """A chain before a scan, a chain after it, and a reduction of the result are one kernel."""
    # Positive numbers: a sum that cancels would depend on the order of additions in eager mode.
    _, plan = check(lambda x: ((2 * x + 1).cumsum(1) * x).sum(1), x.abs())
    (kernel,) = plan.kernels()
    assert sum(isinstance(part, Carry) for nest in kernel.body if isinstance(nest, Nest) for part in nest.body) == 1


def test_two_scans_share_a_loop():
    """The values and the indices of cummax are one kernel."""
    _, plan = programs(lambda x: list(x.cummax(0)), x)
    assert len(list(plan.kernels())) == 1


def test_long_and_short_rows():
    """Rows that need several blocks of a GPU, rows of one element and of none, and scalars work."""
    check(lambda t: [t.cumsum(1), *t.cummin(1)], torch.randint(-3, 4, (2, 3000)).float())
    for shape in ((3, 1), (0, 4), (4, 0), ()):
        check(lambda t: [t.cumsum(-1), *t.cummax(-1)], torch.randn(shape), triton=False)


def test_a_long_sum_is_as_exact_as_eagers():
    """Rounding errors do not accumulate along a row or a column."""
    long = torch.rand(40000, 3)
    exact = long.double().cumsum(0)
    for tensor, dim in ((long, 0), (long.t().contiguous(), 1)):
        (found,) = targets.run_cpp(programs(lambda t: t.cumsum(dim), tensor)[1], (tensor,))
        assert ((found if dim == 0 else found.t()) - exact).abs().max() < 1e-6 * exact.max()


@pytest.mark.parametrize("dim", [0, 1])
def test_what_leaves_the_range_on_the_way_comes_back(dim):
    """Eager adds and multiplies float32 in float64: an intermediate value may exceed the range of float32."""
    sums = torch.tensor([[3e38, 3e38, -3e38, -3e38] * 20] * 3)
    products = torch.tensor([[1e30, 1e30, -1e-30, 1e-30, 1e-30, 1e-30, 1e30, 1e30] * 20] * 3)
    for function, rows in ((torch.cumsum, sums), (torch.cumprod, products)):
        given = rows.t().contiguous() if dim == 0 else rows
        (found,) = targets.run_cpp(programs(lambda t, f=function: f(t, dim), given)[1], (given,))
        torch.testing.assert_close(found, function(given, dim))


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [2, 3, 4, 5, 8, 33])
def test_sums_and_products_are_eagers_to_the_bit(size, dtype, dim):
    """Eager combines elements in order: another order would overflow float64, or round differently."""
    largest = torch.finfo(dtype).max
    sums, products = torch.randn(2, 7, size, dtype=dtype)
    sums[1, :3] = torch.tensor([-largest, largest, largest])[:size]
    products[1, :3] = torch.tensor([1e-30, -1.25, largest])[:size]
    sums[2, -1] = products[2, -1] = -0.0
    sums[3, 0], products[3, 1] = torch.nan, torch.inf
    for function, rows in ((torch.cumsum, sums), (torch.cumprod, products)):
        given = rows.t().contiguous() if dim == 0 else rows
        (found,) = targets.run_cpp(programs(lambda t, f=function: f(t, dim), given)[1], (given,))
        assert same_bits(found, function(given, dim))


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_long_scans_are_eagers_to_the_bit(dtype, dim):
    """Scans longer than a sum's block are bitwise eager's: elements 64 and 65 alone would overflow."""
    sums = torch.randn(5, 1000, dtype=dtype)
    sums[1] = 0
    sums[1, 0], sums[1, 64:66] = -torch.finfo(dtype).max, torch.finfo(dtype).max
    products = 1 + torch.randn(5, 1000, dtype=dtype) / 30
    for function, rows in ((torch.cumsum, sums), (torch.cumprod, products)):
        given = rows.t().contiguous() if dim == 0 else rows
        (found,) = targets.run_cpp(programs(lambda t, f=function: f(t, dim), given)[1], (given,))
        assert same_bits(found, function(given, dim))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp"])
def test_the_zero_of_a_row_of_one_element(name, dtype):
    """The sum of a row of -0.0 alone is 0.0, because it starts with 0; a scalar is copied, with its sign."""
    zero = torch.tensor(-0.0, dtype=dtype)
    for given in (zero, zero.expand(1), zero.expand(3, 1), zero.expand(3, 2)):
        (found,) = targets.run_cpp(programs(lambda t: getattr(t, name)(-1), given)[1], (given,))
        assert same_bits(found, getattr(given, name)(-1)), given.shape


def test_a_scan_and_a_sum_of_the_same_long_columns():
    """The sum is added in blocks, as in eager mode, and the scan in order: both are in one loop."""
    given = torch.randn(1000, 5, dtype=torch.float64)
    found, total = targets.run_cpp(programs(lambda t: [t.cumsum(0), t.sum(0)], given)[1], (given,))
    assert same_bits(found, given.cumsum(0))
    torch.testing.assert_close(total, given.sum(0), rtol=0, atol=1e-12)


def test_sizes_that_are_symbols():
    """One kernel serves all lengths."""
    check(lambda t: [t.cumsum(1), t.cumprod(0)], torch.randn(3, 8), dynamic=True, other_inputs=(torch.randn(4, 33),))


def test_gradients():
    """The derivatives are loops, too."""
    for function in (lambda t: t.cumsum(1), lambda t: t.cummax(1)[0], lambda t: t.logcumsumexp(0)):
        both = [torch.randn(4, 11, generator=torch.Generator().manual_seed(0)).requires_grad_() for _ in range(2)]
        for each, run in zip(both, (function, nbcompile.compile(function)), strict=True):
            run(each).square().sum().backward()
        torch.testing.assert_close(both[0].grad, both[1].grad)
