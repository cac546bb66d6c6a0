"""Loads by the cheapest form that their offsets allow."""

from __future__ import annotations

import pytest
import torch

from nbcompile.codegen.vector_expr import emit_value
from nbcompile.ir.expr import IndexOf, Masked, apply, constant
from nbcompile.ir.index import FloorDiv, Mod, gather_variable, loop_variable
from tests.codegen.test_vector_expr import everything, scope, x

F32, I64 = torch.float32, torch.int64


i0, i1, g0 = loop_variable(0), loop_variable(1), gather_variable(3)


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (40 * i0, "load<f32, 1>(in0 + 40*i0, All{})"),
        (40 * i0 + i1, "load<f32, W>(in0 + 40*i0 + i1, lanes)"),
        (i0 + 3 * i1, ", 3, lanes)"),
        (i0 - i1, ", -1, lanes)"),
        (64 * FloorDiv(i1, 16) + Mod(i1, 16), "load<f32, W>(in0 + "),
        (FloorDiv(i1, 2), "load_repeated<f32, W, 2>(in0, i1, lanes, "),
        (Mod(i1 * i1, 7), "gather<f32, W>(in0, lanes, "),
    ],
)
def test_a_load_is_as_cheap_as_its_index_allows(index, text):
    """A load is uniform, contiguous, strided, blockwise, repeated, or a gather, by its index."""
    assert text in everything(x(index))


def test_a_scratch_row_is_loaded_without_a_mask():
    """A scratch row is padded to whole vectors: a load from its start has no mask, other loads have one."""
    assert emit_value(scope(), x(i1, buffer="row_x")).text == "load<f32, W>(row0 + i1, All{})"
    assert emit_value(scope(), x(i1 + 1, buffer="row_x")).text.endswith("lanes)")
    masked = Masked(apply("lt", IndexOf(i1, I64), constant(3, I64)), x(i1, buffer="row_x"), constant(0.0, F32))
    assert "load<f32, W>(row0 + i1, m1_lanes)" in everything(masked)
