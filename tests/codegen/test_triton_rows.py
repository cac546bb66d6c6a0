"""Triton kernels with one program per row: what all passes load comes first, what a row has once is one number."""

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
    """Weight and bias of a layer norm are on their way while its mean is computed."""
    text = source(lambda x, w, b: torch.layer_norm(x, (1000,), w, b), torch.randn(6, 1000), *torch.randn(2, 1000))
    assert text.rindex("tl.load") < text.index("tl.sum")


def test_a_value_of_a_row_is_loaded_as_one_number():
    """Not once for each element of the block, and without its mask."""
    text = source(lambda x, m: (x - m[:, None]).exp().sum(-1), torch.randn(6, 1000), torch.randn(6))
    assert "tl.load(p1 + (i0))" in text


def test_an_element_of_a_row_has_64_bits_where_its_offset_needs_them():
    """16384 elements that are 2**18 apart: the number of the element is widened before it is multiplied."""
    far = torch.empty_strided((512, 16384), (7, 2**18), device="meta")
    for function in (lambda x: x.amax(1), lambda x: x.argmax(1)):
        program = lower(traced(function, far), (), True, False, torch.device("cuda", 0))
        text = "".join(kernel.source for kernel in generator.emit(schedule(program)).kernels)
        steps = [line for line in text.splitlines() if " inner = " in line]
        assert steps
        assert all(".to(tl.int64)" in line for line in steps)
