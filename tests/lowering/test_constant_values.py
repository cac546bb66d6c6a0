"""Folded constants: the number that eager mode has in memory, to the sign of a zero and of NaN."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from nbcompile import config

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
VIEWED_AS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def bits(tensor):
    return tensor if tensor.dtype == torch.bool else tensor.contiguous().view(VIEWED_AS[tensor.element_size()])


def of_floats(a):
    one, zero, third = torch.ones_like(a), torch.zeros_like(a), torch.full_like(a, 1 / 3)
    return [
        one * 1e30 * 1e-30,  # inf in float16
        (one * 65504 + 32) * a,
        (third + 1000) * a,
        (torch.full((3,), 1 / 3, dtype=a.dtype) + 1000).sum() * a,
        third.exp().double(),
        third.sigmoid().double(),
        (third * 3 == one) | (third + 100 == 100 + 1 / 3),
        (one / 3).cumsum(0),
        (third.float() + 1e-9).to(a.dtype).double(),
        torch.where(a > 0, third * 1001, a).double(),
        torch.where(a > 0, torch.tensor(1 / 3, dtype=torch.float64), a).double(),
        a.masked_fill(a > 0, 1 / 3).double(),
        torch.nn.functional.hardtanh(a, -1 / 3, 1 / 3).double(),
        torch.nn.functional.threshold(a, 1 / 3, 0.7).double(),
        torch.nn.functional.pad(a, (1, 1), value=1 / 3).double(),
        torch.cat([third * 1001, a]).double(),
        zero / zero,
        (one * float("inf")) - float("inf"),
        zero * -1.0,
        (zero / zero).to(torch.int64),
        torch.copysign(one, zero / zero),
        torch.arange(3, dtype=a.dtype) / 3 * 1001 * one,
    ]


def of_integers(a):
    one, most = torch.ones_like(a), torch.full_like(a, torch.iinfo(a.dtype).max)
    return [
        most + 1,
        most * most,
        (most + one).to(torch.int64),
        -one,
        most.float() * a,
        most.double() - 1,
        most.to(torch.int8) + a,
        most.bool(),
        (most * 3).sum(),
        most.cumsum(0),
        most / 3,
        torch.full((3,), 2**53 + 1) * 1.0 * a,
        torch.full((3,), 300).to(a.dtype) + a,
        torch.where(a > 1, most + 1, a),
    ]


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floats(dtype, reference, monkeypatch):
    """A constant is rounded after each operator; a NaN has the sign that eager gives it."""
    monkeypatch.setattr(config, "reference", reference)
    a = torch.tensor([1.5, -2.0, 0.0], dtype=dtype)
    for number, (found, wanted) in enumerate(zip(nbcompile.compile(of_floats)(a), of_floats(a), strict=True)):
        assert found.dtype == wanted.dtype
        assert torch.equal(bits(found), bits(wanted)), (number, found, wanted)


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers(dtype):
    """A constant wraps in its own type."""
    a = torch.tensor([1, 2, 0], dtype=dtype)
    for number, (found, wanted) in enumerate(zip(nbcompile.compile(of_integers)(a), of_integers(a), strict=True)):
        assert found.dtype == wanted.dtype
        assert torch.equal(bits(found), bits(wanted)), (number, found, wanted)


def test_dynamic_size_and_gradient():
    """A factor that overflows is infinite with a size that is a symbol, and in the gradient."""

    def f(a):
        return a * (torch.ones_like(a) * 300 * 300) + a.shape[0]

    def gradient(function, a):
        a = a.clone().requires_grad_()
        function(a).sum().backward()
        return a.grad

    g = nbcompile.compile(f, dynamic=True)
    for size in (3, 40):
        a = torch.linspace(0.001, 1, size).half()
        assert torch.equal(g(a), f(a))
        assert gradient(g, a).equal(gradient(f, a))


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_under_a_default_device(device):
    """A constant is computed on the CPU, whatever the default device is."""

    def f(a):
        return torch.ones_like(a) * 3e4 * 3e4 * a

    a = torch.ones(3, dtype=torch.float16)
    with torch.device(device):
        assert torch.equal(nbcompile.compile(f)(a), f(a))


def test_an_integer_divided_by_zero_is_an_error_of_the_call():
    """Compiling ``1 // 0`` of constants does not fail; the call does, as in eager mode."""

    def f(a):
        return a + torch.ones_like(a) // torch.zeros_like(a)

    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        nbcompile.compile(f)(torch.ones(3, dtype=torch.int64))
