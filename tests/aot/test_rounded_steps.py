"""Operators of float16 and bfloat16 that round between their steps, compared with eager mode for all numbers."""

import functools
import math

import pytest
import torch
import torch.nn.functional as F

import nbcompile
from nbcompile.aot.rounded_steps import DEFINITIONS, with_rounded_steps

pytestmark = pytest.mark.usefixtures("nothing_compiled")

UNARY = {
    "logit": torch.logit,
    "logit_of_clamped": functools.partial(torch.logit, eps=0.1),
    "entr": torch.special.entr,
    "xlogy_of_number": lambda x: torch.xlogy(x, 0.3),
    "number_xlogy": lambda x: torch.xlogy(0.3, x),
    "xlog1py_of_number": lambda x: torch.special.xlog1py(x, 0.3),
    "number_xlog1py": lambda x: torch.special.xlog1py(0.3, x),
    "softshrink": lambda x: F.softshrink(x, 0.3),
    "threshold": lambda x: F.threshold(x, 0.1, 20.3),
    "cube": lambda x: x**3,
    "inverse_square": lambda x: x**-2,
    "root": lambda x: x**0.5,
    "inverse_root": lambda x: x**-0.5,
}
BINARY = {
    "xlogy": torch.xlogy,
    "xlog1py": torch.special.xlog1py,
    "mse_loss": lambda x, y: F.mse_loss(x, y, reduction="none"),
}


def every_number(dtype):
    """All 65,536 numbers of a narrow type."""
    return torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)


def assert_same(got, wanted, *, zeros=True):
    """The same numbers, to the sign of a zero unless eager's own depends on the place."""
    torch.testing.assert_close(got, wanted, rtol=0, atol=0, equal_nan=True)
    numbers = ~wanted.isnan() & (zeros | (wanted != 0))
    assert torch.equal(got.signbit() & numbers, wanted.signbit() & numbers)


@pytest.mark.compiles
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_an_operator_rounds_where_eager_does(name, dtype):
    """All numbers have eager's result; of two zeros softshrink has either in eager mode."""
    x = every_number(dtype)
    got = nbcompile.compile(lambda x: UNARY[name](x), fullgraph=True)(x)
    assert_same(got, UNARY[name](x), zeros=name != "softshrink")


@pytest.mark.compiles
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_an_operator_on_two_tensors_rounds_where_eager_does(name, dtype):
    """Pairs of all numbers, in another order, have eager's result."""
    x = every_number(dtype)
    y = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(0))]
    got = nbcompile.compile(lambda x, y: BINARY[name](x, y), fullgraph=True)(x, y)
    assert_same(got, BINARY[name](x, y))


@pytest.mark.compiles
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["leaky_relu", "elu", "softplus"])
def test_the_result_of_an_activation_is_rounded(name, dtype):
    """A cast to float64 shows no digits that the narrow type lacks, as in ``torch.compile``."""

    def function(x):
        y = F.leaky_relu(x, 1 / 3) if name == "leaky_relu" else getattr(F, name)(x)
        return y.double()

    x = every_number(dtype)
    got = nbcompile.compile(function, fullgraph=True)(x)
    assert torch.equal(got.nan_to_num(), got.to(dtype).double().nan_to_num())
    if name == "leaky_relu":  # of the others the last digit of an exponential may differ
        assert_same(got, function(x))


@pytest.mark.compiles
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_loss_is_reduced(reduction):
    """``mse_loss`` of bfloat16, with its gradient, reduces the rounded squares."""
    x = torch.arange(64.0).bfloat16().requires_grad_()
    target = (torch.arange(64.0) / 4).bfloat16()

    def loss_of(x):
        return F.mse_loss(x, target, reduction=reduction)

    wanted = loss_of(x)
    got = nbcompile.compile(loss_of)(x)
    assert torch.equal(got, wanted)
    assert torch.equal(*(torch.autograd.grad(loss, x)[0] for loss in (got, wanted)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_other_types_keep_the_general_definition(dtype):
    """Tensors that are not narrow go to the general definition, or to none."""
    operator = torch.ops.aten.logit.default
    x = torch.ones(3, dtype=dtype)
    assert with_rounded_steps(operator, lambda x: math.pi)(x) == math.pi
    assert with_rounded_steps(operator, None)(x) is NotImplemented


def test_a_power_without_steps_has_no_definition():
    """Squares are rounded once: the lowering computes them."""
    power = DEFINITIONS[torch.ops.aten.pow.Tensor_Scalar]
    assert power(torch.ones(3, dtype=torch.bfloat16), 2) is NotImplemented
