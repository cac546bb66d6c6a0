"""Indices of 32 bits, if all values that they are computed from fit."""

from __future__ import annotations

import pytest
import torch

from nbcompile.codegen.index_width import fits_in_32_bits
from tests.support.lowered import programs


def fits(function, *inputs, **how) -> bool:
    _, planned = programs(function, *inputs, **how)
    return all(fits_in_32_bits(kernel) for kernel in planned.kernels())


def big(*size: int) -> torch.Tensor:
    """A large tensor on the meta device, which needs no memory."""
    return torch.empty(size, device="meta")


def test_small_tensors_fit():
    """Indices into small tensors fit in 32 bits, in a gather and in divisions, too."""
    assert fits(lambda x: x.sin(), torch.randn(100, 100))
    assert fits(lambda t, i: t[i] + 1, torch.randn(100, 10), torch.tensor([3, 5]))
    assert fits(lambda x: torch.nn.functional.pixel_shuffle(x, 2), torch.randn(1, 8, 6, 6))


@pytest.mark.parametrize("rows", [2**16, 2**15 - 16])
def test_the_end_counts(rows):
    """A tensor of 2**31 elements needs 64-bit indices; a slightly smaller one does not."""
    assert fits(lambda x: x + 1, big(rows, 2**16)) == (rows < 2**15)


def test_a_stride_counts():
    """A small tensor with large strides needs 64-bit indices."""
    far = torch.empty_strided((4, 4), (2**30, 1), device="meta")
    assert not fits(lambda x: x + 1, far)


def test_a_size_that_only_a_call_knows_may_be_anything():
    """A symbolic size needs 64-bit indices."""
    assert not fits(lambda x: x + 1, torch.randn(8, 9), dynamic=True)
