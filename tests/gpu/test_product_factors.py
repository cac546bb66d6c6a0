"""Text of the factors of a matrix product."""

from __future__ import annotations

import torch

from nbcompile.codegen.triton_products import product_of
from nbcompile.gpu.product_factors import Factor, factors_of
from nbcompile.scheduling import schedule
from tests.lowering.test_products import lowered


def factors(function, *inputs):
    (kernel,) = schedule(lowered(function, *inputs)).kernels()
    return factors_of(product_of(kernel))


def test_sizes_and_strides_are_those_of_the_operands():
    """A transposed operand has the strides of its memory, in the order of rows, sum and columns."""
    left, right = factors(lambda x, w: x @ w.t(), torch.randn(33, 40), torch.randn(50, 40))
    assert (left.size, left.stride) == ("33x40", "[40, 1]")
    assert (right.size, right.stride) == ("40x50", "[1, 40]")


def test_a_factor_that_is_computed_has_no_strides():
    """A computed factor has no strides, and the dtype of the computation."""
    left, right = factors(lambda x, w: x.relu() @ w, torch.randn(33, 40), torch.randn(40, 50))
    assert left == Factor("33x40", "[]", "torch.float32")
    assert right.stride == "[50, 1]"
