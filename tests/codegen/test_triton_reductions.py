"""Reductions and scans of blocks in Triton: values of masked elements, combination, and carried values."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")

from nbcompile.codegen import triton as generator, triton_reductions
from nbcompile.codegen.triton_values import TritonEmitter
from nbcompile.codegen.writer import SourceWriter
from nbcompile.ir.buffer import Program
from nbcompile.ir.expr import Local
from nbcompile.ir.index import loop_variable
from nbcompile.ir.kernel import Accumulate, Carry, Kernel, Schedule
from tests.support.lowered import check, programs

CPU = torch.device("cpu")
FLOATS, WHOLE = (torch.float32, torch.float64, torch.float16), (torch.int8, torch.int32, torch.int64, torch.uint8)


def emitter(mask=""):
    """A generator in a block, with one value in a variable."""
    kernel = Kernel("k", CPU, (), ())
    schedule = Schedule(Program((), (), 0), ())
    return TritonEmitter(kernel, schedule, SourceWriter(), {}, mask=mask, block="inner", locals={"x": "x1"})


def part(kind, dtype=torch.float32, cls=Accumulate):
    """A reduction or scan of that value."""
    return cls("v0", kind, Local("x", dtype), loop_variable(0))


@pytest.mark.parametrize("kind", ["max", "min", "argmax", "argmin", "logsumexp"])
@pytest.mark.parametrize("dtype", [*FLOATS, *WHOLE, torch.bool])
def test_the_identity_loses_against_every_number(kind, dtype):
    """The identity of max is the dtype's minimum, and that of min is the maximum."""
    written = triton_reductions._identity(part(kind, dtype))
    if dtype.is_floating_point:
        assert written == f'float("{"inf" if kind in ("min", "argmin") else "-inf"}")'
        return
    limits = torch.tensor([0, 1], dtype=dtype) if dtype == torch.bool else torch.iinfo(dtype)
    least, greatest = (0, 1) if dtype == torch.bool else (limits.min, limits.max)
    assert int(written) == (greatest if kind in ("min", "argmin") else least)


@pytest.mark.parametrize(("kind", "expected"), [("sum", "0"), ("prod", "1"), ("any", "0"), ("all", "1")])
def test_sums_and_products_begin_with_what_changes_nothing(kind, expected):
    """Sums begin with 0 and products with 1 of each dtype."""
    for dtype in (torch.float32, torch.int64):
        assert triton_reductions._identity(part(kind, dtype)) == expected


@pytest.mark.parametrize("mask", ["", "m1"])
def test_masked_elements_keep_the_accumulator(mask):
    """A masked element leaves the accumulator unchanged; without a mask there is no select."""
    made = emitter()
    triton_reductions.emit_combine(made, part("sum"), mask)
    expected = "tl.where(m1, v0_acc + (x1), v0_acc)" if mask else "v0_acc + (x1)"
    assert made.writer.lines == [f"v0_acc = {expected}"]


ROWS = torch.tensor([[1.0, torch.nan, 3.0] * 5, [2.0, 2.0, -1.0] * 5, [-0.0] * 15])
"""With a NaN, with equal numbers, and of negative zeros."""


def source(function, *inputs):
    """The text of the only kernel."""
    (kernel,) = generator.emit(programs(function, *inputs)[1]).kernels
    return kernel.source


@pytest.mark.parametrize("name", ["amax", "amin", "sum", "any"])
def test_rows_in_registers_are_reduced_as_in_eager_mode(name):
    """A reduction of a row in registers keeps NaN, and a sum of -0.0 is 0.0, as in eager mode."""
    check(lambda x: getattr(x, name)(dim=1), ROWS, cpp=False, must_be_triton=True)


def test_of_equal_numbers_the_lower_index_is_taken():
    """The lower index of equal numbers is taken: the accumulator's index starts above all others."""
    in_a_loop = source(lambda x: x.argmax(1), torch.ones(2, 5000))
    assert f"_index = tl.full([1024], {2**63 - 1}, tl.int64)" in in_a_loop or str(2**63 - 1) in in_a_loop
    assert "pick_larger" in in_a_loop
    made = emitter()
    triton_reductions.emit_combine(made, part("argmin"), "m1")
    better, total, index = made.writer.lines
    assert "beats_smaller(x1, " in better and better.endswith(") & m1")
    assert total == "v0_acc = tl.where(better1, x1, v0_acc)"
    assert index.startswith("v0_index = tl.where(better1, ") and index.endswith(", v0_index)")


@pytest.mark.parametrize(("kind", "form"), [
    ("max", "tl.reduce(v0_acc, 0, nan_maximum)"), ("any", "tl.max(v0_acc.to(tl.int32), 0) != 0"),
    ("all", "tl.min(v0_acc.to(tl.int32), 0) != 0"), ("sum", "tl.sum(v0_acc, 0)"),
])  # fmt: skip
def test_a_block_is_reduced_by_a_function_that_keeps_nan(kind, form):
    """A block's maximum is computed by a function that keeps NaN; Triton's own maximum does not."""
    made = emitter()
    assert triton_reductions.reduce_block(made, part(kind)) == "v0"
    assert made.writer.lines == [f"v0 = {form}"]


def test_a_sum_of_a_row_begins_with_zero():
    """A sum of floats begins with zero, because 0.0 + -0.0 is 0.0, as in eager mode; integers need no zero."""
    for dtype, expected in ((torch.float32, True), (torch.int64, False)):
        made = emitter("m1")
        triton_reductions.reduce_row(made, part("sum", dtype))
        assert ("v0 += 0.0" in made.writer.lines) is expected
        assert made.writer.lines[0].startswith("v0_acc = tl.where(m1, x1, ")


def test_a_scan_goes_on_where_the_block_before_ended():
    """A block's scan is combined with the carried value, and its last element is carried on."""
    made = emitter()
    triton_reductions.scan_next_block(made, part("sum", cls=Carry), "64", "is_last")
    scanned, joined, total = made.writer.lines
    assert scanned == "v0 = tl.associative_scan(tl.broadcast_to(x1, inner.shape), 0, plus) + 0.0"
    assert joined == "v0 = plus(v0_acc, v0)"
    assert total == "v0_acc = tl.full([64], 0, tl.float32) + tl.sum(tl.where(is_last, v0, 0), 0).to(tl.float32)"


def test_a_carried_negative_zero_is_added_as_bits():
    """The carried element is selected by a sum of bits, because a sum of floats would lose the sign of -0.0."""
    for kind, dtype, has_bits in (
        ("prod", torch.float32, True),
        ("sum", torch.float32, False),
        ("max", torch.int32, False),
    ):
        made = emitter("m1")
        triton_reductions.scan_next_block(made, part(kind, dtype, Carry), "64", "is_last")
        assert ("bitcast=True" in made.writer.text()) is has_bits
