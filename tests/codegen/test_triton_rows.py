"""Triton kernels with one program per row: common loads come first, and values per row are loaded as scalars."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")

from nbcompile.codegen import triton as generator
from nbcompile.lowering import lower
from nbcompile.scheduling import schedule
from tests.codegen.test_triton_loads import source
from tests.support.lowered import traced


def test_all_passes_over_a_row_load_first():
    """Weight and bias of a layer norm are loaded before the passes, so that they arrive while the mean is computed."""
    text = source(lambda x, w, b: torch.layer_norm(x, (1000,), w, b), torch.randn(6, 1000), *torch.randn(2, 1000))
    assert text.rindex("tl.load") < text.index("tl.sum")


def test_a_value_of_a_row_is_loaded_as_one_number():
    """A value per row is loaded once without a mask, and not for each element of the block."""
    text = source(lambda x, m: (x - m[:, None]).exp().sum(-1), torch.randn(6, 1000), torch.randn(6))
    assert "tl.load(p1 + (i0))" in text


def test_an_element_of_a_row_has_64_bits_where_its_offset_needs_them():
    """An index times a stride of 2**18 exceeds 32 bits: the index is widened before the product."""
    far = torch.empty_strided((512, 16384), (7, 2**18), device="meta")
    for function in (lambda x: x.amax(1), lambda x: x.argmax(1)):
        program = lower(traced(function, far), True, False, torch.device("cuda", 0))
        text = "".join(kernel.source for kernel in generator.emit(schedule(program)).kernels)
        steps = [line for line in text.splitlines() if " inner = " in line]
        assert steps
        assert all(".to(tl.int64)" in line for line in steps)
