"""Launches of the user's Triton kernels as steps of a plan: what they write is copied only where it must be."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

from tests.gpu.kernels import X, explained, launched, scale


def test_memory_for_a_result_is_not_filled():
    """What ``empty_like`` made for the launch alone is neither written before it nor copied."""
    found = explained(lambda x: launched(scale, x, 3.0, BLOCK=128), X)
    assert [kernel.name for kernel in found.kernels if kernel.language == "triton"] == ["scale"]


def test_an_input_is_written_in_place():
    """The mutation is that of the argument; what was computed of it before is not changed."""

    def double(x):
        before = x + 1
        scale[(3,)](x, x, x.numel(), 2.0, BLOCK=128)
        return before, x - 1

    x = X.clone()
    found = explained(double, x)
    assert torch.equal(x, X * 2)
    assert torch.equal(found.result[0], X + 1)
    assert torch.equal(found.result[1], X * 2 - 1)
