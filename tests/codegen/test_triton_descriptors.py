"""Tensor descriptors for the factors of matrix products: sizes, strides, and the text in the interpreter."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from nbcompile.codegen import triton_descriptors
from nbcompile.codegen.triton_products import product_of
from nbcompile.ir.kernel import Kernel, ProductTile
from nbcompile.scheduling import schedule
from tests.lowering.test_products import lowered, on_the_cpu
from tests.support import targets


def described(function, *inputs):
    """Sizes and strides of both factors of the only product, or None."""
    planned = schedule(lowered(function, *inputs))
    (kernel,) = (step for step in planned.steps if isinstance(step, Kernel))
    parts = product_of(kernel)
    sides = parts.batch, parts.rows, parts.columns, parts.depth
    found = triton_descriptors.describe_factors(kernel, (parts.left, parts.right), *sides)
    return found and [(factor.sizes, factor.strides, factor.is_transposed) for factor in found]


def half(*size: int) -> torch.Tensor:
    return torch.randn(size).half()


def test_a_factor_is_a_tensor_whose_last_dimension_is_adjacent():
    """The last dimension of a factor is contiguous, a batch is the first dimension; loops over rows are merged into
    one."""
    assert described(torch.mm, half(70, 96), half(96, 72)) == [((70, 96), (96, 1), False), ((96, 72), (72, 1), False)]
    assert described(torch.nn.functional.linear, half(3, 5, 40), half(72, 40)) == [
        ((15, 40), (40, 1), False), ((72, 40), (40, 1), True)
    ]  # fmt: skip
    assert described(torch.bmm, half(2, 7, 40), half(2, 40, 16)) == [
        ((2, 7, 40), (280, 40, 1), False), ((2, 40, 16), (640, 16, 1), False)
    ]  # fmt: skip


@pytest.mark.parametrize(("function", "inputs"), [
    (torch.mm, (half(7, 41), half(41, 16))),
    (torch.mm, (half(7, 40)[:, ::2], half(20, 16))),
    (torch.mm, (half(7, 41)[:, 1:], half(40, 16))),
    (lambda x, w: torch.relu(x) @ w, (half(7, 40), half(40, 16))),
    (torch.mm, (half(1, 40).expand(7, 40), half(40, 16))),
], ids=["odd rows", "every second column", "an odd start", "computed", "expanded"])  # fmt: skip
def test_what_the_copy_engine_does_not_take(function, inputs):
    """Descriptors need strides and offsets of 16 bytes, contiguous elements, and factors that are not computed."""
    assert described(function, *inputs) is None


@pytest.mark.skipif(not targets.HAS_TRITON, reason="Triton is an extra (nbcompile[cuda])")
@pytest.mark.parametrize("programs", [0, 3])
def test_triton_s_interpreter_computes_the_same(programs):
    """Triton's interpreter gives eager's values, in float32, because it cannot multiply bfloat16."""
    inputs = [half(3, 41, 40), half(3, 40, 48)]

    def function(x, w):
        return torch.relu(torch.bmm(x, w)).float()

    planned = schedule(on_the_cpu(lowered(function, *inputs)))
    tile = ProductTile(16, 16, 16, 4, 3, programs=programs, descriptors=True)
    steps = [replace(step, tile=tile) if isinstance(step, Kernel) else step for step in planned.steps]
    found = targets.run_triton(replace(planned, steps=tuple(steps)), inputs)
    torch.testing.assert_close(found[0], function(*inputs), rtol=2e-3, atol=2e-3)
