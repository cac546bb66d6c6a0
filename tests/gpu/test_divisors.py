"""Integer division in GPU kernels: divisors are checked as eager mode does on the CPU."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

import nbcompile

pytestmark = pytest.mark.usefixtures("nothing_compiled")

ON_SM_90 = {"target": "sm_90"}


def divided(x, y):
    """Each kind of quotient and remainder."""
    down = torch.floor_divide(x, y), torch.remainder(x, y)
    return *down, torch.div(x, y, rounding_mode="trunc"), torch.fmod(x, y)


def explained(function, *inputs):
    """The code for a GPU is Triton without ATen; the result is eager's."""
    found = nbcompile.explain(function, options=ON_SM_90)(*inputs)
    torch.testing.assert_close(found.result, function(*inputs), rtol=0, atol=0)
    assert {kernel.language for kernel in found.kernels} == {"triton"}
    return found


@pytest.mark.parametrize("dtype", [torch.int64, torch.int16, torch.uint8], ids=str)
def test_a_kernel_divides_whole_numbers(dtype):
    """Signed and unsigned integers of each dtype are divided in a kernel, in a partial block, too."""
    x = torch.randint(-100, 100, (37, 7)).to(dtype)
    y = torch.randint(1, 9, (37, 7)).to(dtype) * (1 if dtype == torch.uint8 else torch.randint(0, 2, (37, 7)) * 2 - 1)
    (kernel,) = explained(divided, x, y.to(dtype)).kernels
    assert "device_assert((x2 != 0) | ~" in kernel.source


@pytest.mark.parametrize("size", [(3,), (40, 50)], ids=str)
def test_a_divisor_that_is_zero_is_the_error_of_eager_mode(size):
    """A zero divisor raises at any index, but not in a masked element; the next call succeeds."""
    function = nbcompile.compile(divided, options=ON_SM_90)
    x, y = torch.arange(torch.Size(size).numel()).reshape(size), torch.full(size, 7)
    assert torch.equal(function(x, y)[0], x // 7)
    for place in (0, -1):
        zero = y.clone()
        zero.view(-1)[place] = 0
        with pytest.raises(RuntimeError, match="^ZeroDivisionError$"):
            function(x, zero)
    assert torch.equal(function(x, y)[1], x % 7)


def test_a_known_divisor_is_not_checked():
    """A constant divisor is not checked; a constant 0 goes to ATen, which raises."""
    (kernel,) = explained(lambda x: (x // 7, x % -5), torch.arange(-50, 50)).kernels
    assert "device_assert" not in kernel.source
    with pytest.raises(RuntimeError, match="^ZeroDivisionError$"):
        nbcompile.compile(lambda x: x // 0, options=ON_SM_90)(torch.arange(9))


def test_floats_are_divided_by_zero():
    """Floats are divided by zero without an error, as in eager mode."""
    explained(lambda x, y: x // y, torch.tensor([1.0, -2.0, 3.0]), torch.tensor([0.0, 0.0, 2.0]))


def test_rows_and_columns_and_what_is_chosen():
    """Divisors may be per row, and in unselected branches of ``where``: eager mode divides there, too."""

    def function(x, rows, one):
        chosen = torch.where(x > 50, x // rows[:, None], x % one)
        return chosen, (x // one).sum(0), (x // rows[:, None]).sum(1)

    x, rows, one = torch.arange(21 * 33).reshape(21, 33), torch.arange(1, 22), torch.tensor(5)
    explained(function, x, rows, one)
    for given in ((x, rows * (rows != 1), one), (x, rows, one * 0)):
        with pytest.raises(RuntimeError, match="^ZeroDivisionError$"):
            nbcompile.compile(function, options=ON_SM_90)(*given)


def test_operands_of_a_concatenation_are_divided_where_they_are():
    """Only the elements of the divided operand are checked."""
    explained(lambda x, y: torch.cat([x // y, x]) + 1, torch.arange(40), torch.arange(1, 41))
