"""The bias of a matrix product is added in the loop that reads the product, if there is one."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.support.lowered import check, externs

MM, ADDMM = "aten.mm.default", "aten.addmm.default"


def read_by_a_loop(x, w, b):
    return F.gelu(torch.addmm(b, x, w))


def read_through_a_view(x, w, b):
    return torch.addmm(b, x, w).view(2, 3, 4).sum(-1)


def read_twice(x, w, b):
    product = torch.addmm(b, x, w)
    return product.sin(), F.layer_norm(product + 1, (4,))


def bias_of_rows(x, w, b):
    return torch.addmm(b.sum().expand(6, 1), x, w).relu()


def returned(x, w, b):
    product = torch.addmm(b, x, w)
    return product, product.exp()


def returned_as_a_view(x, w, b):
    product = torch.addmm(b, x, w)
    return product.t(), product.exp()


def multiplied_again(x, w, b):
    return torch.addmm(b, x, w) @ w.t()


def scaled(x, w, b):
    return torch.addmm(b, x, w, beta=2).sin()


@pytest.mark.parametrize("function", [read_by_a_loop, read_through_a_view, read_twice, bias_of_rows])
def test_the_bias_is_the_readers(function):
    """ATen computes the product, and the loop that reads it adds the bias."""
    program, _ = check(function, torch.randn(6, 5), torch.randn(5, 4), torch.randn(4), allow_extern=True)
    assert externs(program) == [MM]


@pytest.mark.parametrize("function", [returned, returned_as_a_view, multiplied_again, scaled])
def test_the_bias_is_the_products(function):
    """If the sum itself needs memory, or has factors, ATen's addmm computes product and bias."""
    program, _ = check(function, torch.randn(6, 5), torch.randn(5, 4), torch.randn(4), allow_extern=True)
    assert ADDMM in externs(program)


def test_narrow_types_are_rounded_once():
    """A sum in bfloat16 is rounded once, after the bias, as in eager mode."""
    tensors = (each.bfloat16() for each in (torch.randn(6, 5), torch.randn(5, 4), torch.randn(4)))
    program, _ = check(read_by_a_loop, *tensors, allow_extern=True)
    assert externs(program) == [ADDMM]
