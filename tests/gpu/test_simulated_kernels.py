"""Launches of the user's Triton kernels in the simulator: grids, autotuning, faults."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

import triton

import nbcompile
from nbcompile.gpu.memory import Fault, Race
from tests.gpu.kernels import ON_A_GPU, X, add_first, explained, numbered, scale


def test_a_grid_has_up_to_three_dimensions():
    """Each program has its index in each dimension."""

    def fill():
        out = torch.empty(24, dtype=torch.int32)
        numbered[2, 3, 4](out)
        return out

    assert torch.equal(explained(fill).result, torch.arange(24, dtype=torch.int32) * 3)


def test_an_access_outside_of_a_tensor_is_an_error():
    """A fault in the user's kernel is an error with the line, and inputs are unchanged."""

    def outside(x):
        x.add_(1)
        out = torch.empty(10)
        scale[(3,)](x, out, x.numel(), 3.0, BLOCK=128)
        return out

    x = X.clone()
    with pytest.raises(Fault, match="past the end of target"):
        nbcompile.compile(outside, options=ON_A_GPU)(x)
    assert torch.equal(x, X)


@pytest.mark.parametrize("block", [8, 32, 64])
def test_a_small_block_may_be_written_in_place(block):
    """Warps that own no element load all of them and store nothing, which is no race."""

    def scaled(x):
        y = x + 0
        scale[(triton.cdiv(100, block),)](y, y, 100, 3.0, BLOCK=block)
        return y

    assert torch.equal(explained(scaled, X[:100]).result, X[:100] * 3)


def test_a_race_is_an_error():
    """It is an error if each warp updates an element that the first warp writes, except with one warp."""

    def added(x, block):
        y = x + 1
        add_first[(1,)](y, block, BLOCK=block)
        return y

    assert torch.equal(explained(added, X, 32).result[:32], X[:32] + 2)
    with pytest.raises(Race, match="in a race, accessing"):
        nbcompile.compile(added, options=ON_A_GPU)(X, 128)
