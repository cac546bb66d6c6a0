"""Grouped matrix products without a kernel: they run through ATen, with the reason."""

from __future__ import annotations

import pytest

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

import nbcompile
from tests.gpu.test_grouped_products import OPERATOR, offsets, tensors


def test_without_tuning_it_is_the_librarys():
    """Without tuning, grouped products run through ATen, with the reason; products without a kernel do, too."""
    a, b = tensors((64, 32), (2, 32, 64))
    groups = offsets(20, 64)
    found = nbcompile.explain(lambda a, b, groups: OPERATOR(a, b, groups), options={"target": "sm_90"})(a, b, groups)
    (kernel,) = found.kernels
    assert kernel.language == "aten"
    assert "grouped matrix product" in kernel.reason
