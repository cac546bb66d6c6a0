"""Triton kernels with one program per row: what all passes load comes first, what a row has once is one number."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")

from tests.codegen.test_triton_loads import source


def test_all_passes_over_a_row_load_first():
    """Weight and bias of a layer norm are on their way while its mean is computed."""
    text = source(lambda x, w, b: torch.layer_norm(x, (1000,), w, b), torch.randn(6, 1000), *torch.randn(2, 1000))
    assert text.rindex("tl.load") < text.index("tl.sum")


def test_a_value_of_a_row_is_loaded_as_one_number():
    """Not once for each element of the block, and without its mask."""
    text = source(lambda x, m: (x - m[:, None]).exp().sum(-1), torch.randn(6, 1000), torch.randn(6))
    assert "tl.load(p1 + (i0))" in text
