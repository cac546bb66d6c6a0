"""Launches of the user's Triton kernels as steps of a plan: a mutated argument is copied only if necessary."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

from tests.gpu.kernels import X, explained, launched, scale


def test_memory_for_a_result_is_not_filled():
    """The memory of ``empty_like`` is neither written before the launch nor copied."""
    found = explained(lambda x: launched(scale, x, 3.0, BLOCK=128), X)
    assert [kernel.name for kernel in found.kernels if kernel.language == "triton"] == ["scale"]


def test_an_input_is_written_in_place():
    """The launch mutates the argument; a value that was computed from it before does not change."""

    def double(x):
        before = x + 1
        scale[(3,)](x, x, x.numel(), 2.0, BLOCK=128)
        return before, x - 1

    x = X.clone()
    found = explained(double, x)
    assert torch.equal(x, X * 2)
    assert torch.equal(found.result[0], X + 1)
    assert torch.equal(found.result[1], X * 2 - 1)
