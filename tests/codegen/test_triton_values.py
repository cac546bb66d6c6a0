"""Values of Triton kernels: masked loads, constants, casts, atomics, and operations without a Triton form."""

from __future__ import annotations

import math

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")

from nbcompile.codegen import triton as generator, triton_values
from nbcompile.codegen.triton_values import NoTriton, TritonEmitter, value_text
from nbcompile.codegen.writer import SourceWriter
from nbcompile.ir.buffer import Program
from nbcompile.ir.expr import Apply, Constant, Expr, Load, Local
from nbcompile.ir.index import loop_variable
from nbcompile.ir.kernel import Kernel, Schedule
from tests.support.lowered import check, programs

CPU, F32 = torch.device("cpu"), torch.float32


def emitter(**state):
    """A generator in a block of one variable."""
    given = {
        "mask": "m0", "block_mask": "m0", "block": "i0", "block_variables": frozenset({loop_variable(0)}),
        "locals": {"x": "x1"}, **state,
    }  # fmt: skip
    kernel, schedule = Kernel("k", CPU, (), ()), Schedule(Program((), (), 0), ())
    return TritonEmitter(kernel, schedule, SourceWriter(), {"b": "p0"}, **given)


def source(function, *inputs):
    """The text of the only kernel; its results equal eager's in Triton's interpreter."""
    check(function, *inputs, cpp=False, must_be_triton=True)
    (kernel,) = generator.emit(programs(function, *inputs)[1]).kernels
    return kernel.source


def load(index=None):
    return Load("b", (loop_variable(0) if index is None else index,), F32)


@pytest.mark.parametrize(("value", "dtype", "expected"), [
    (1.5, F32, "tl.full([1], 1.5, tl.float32)"),
    (math.inf, F32, "tl.full([1], float('inf'), tl.float32)"),
    (-0.0, F32, "(tl.full([1], -1.0, tl.float32) * 0.0)"),
    (0.0, F32, "tl.full([1], 0.0, tl.float32)"),
    (True, torch.bool, "tl.full([1], 1, tl.int1)"),
    (-3, torch.int8, "tl.full([1], -3, tl.int8)"),
])  # fmt: skip
def test_constants_have_their_type(value, dtype, expected):
    """A constant is a block of one element: a Python number would have another type, and -0.0 would be 0.0."""
    assert value_text(emitter(), Constant(value, dtype)) == expected


def test_equal_loads_are_one():
    """Equal loads are merged, because Triton does not merge them over a store; a mutated buffer is loaded each time."""
    made = emitter()
    assert value_text(made, load()) == value_text(made, load()) == "x1"
    assert value_text(made, load(loop_variable(0) + 1)) == "x2"
    writing = emitter()
    writing.kernel = Kernel("k", CPU, (), (), writes=("b",))
    assert value_text(writing, load()) != value_text(writing, load())


def test_a_load_has_the_mask_of_its_block():
    """A masked element loads 0; a uniform value is loaded once, without a mask."""
    made = emitter()
    value_text(made, load())
    value_text(made, load(loop_variable(0) * 0 + 7))
    first, second = lines(made)
    assert "p0 + (i0), m0, 0.0" in first
    assert "p0 + (7))" in second


def lines(made):
    """The lines of the text."""
    return [line.strip() for line in made.writer.text().splitlines()]


@pytest.mark.parametrize(("source_type", "dtype", "expected"), [
    (F32, F32, "x1"),
    (F32, torch.bool, "(x1 != 0)"),
    (F32, torch.int32, "(x1).to(tl.int32)"),
    (torch.float64, torch.bfloat16, "((x1).to(tl.float32)).to(tl.bfloat16)"),
    (F32, torch.float16, "(x1).to(tl.float16)"),
])  # fmt: skip
def test_casts(source_type, dtype, expected):
    """A cast to a narrow dtype goes through float32, as in eager mode; a cast to bool is a comparison."""
    assert value_text(emitter(), Apply("cast", (Local("x", source_type),), dtype)) == expected


def test_an_operation_without_a_form_is_named():
    """The kernel is rejected, and the reason names the operation."""
    with pytest.raises(NoTriton, match="the operation unheard_of"):
        value_text(emitter(), Apply("unheard_of", (Local("x", F32),), F32))


def test_every_operation_takes_as_many_operands_as_its_text_has_gaps():
    """Each operation has one, two or three operands, as many as its text has gaps."""
    for name, form in triton_values.OPERATIONS.items():
        gaps = {at for at in range(4) if f"{{{at}}}" in form}
        assert gaps == set(range(len(gaps))) and gaps, name


def test_a_value_that_some_elements_lack_is_masked_on_both_sides():
    """``cat`` loads each part under a mask, because its address may be out of bounds elsewhere."""
    text = source(lambda x, y: torch.cat([x, y]), torch.randn(100), torch.randn(60))
    assert text.count("tl.load") == 2 and "tl.where(" in text
    assert " & ~" in text or "& (~" in text


def test_an_index_is_checked_where_the_element_exists():
    """An index is checked only for elements that exist; a negative one counts from the end."""
    text = source(lambda x, i: x[i], torch.randn(10), torch.tensor([3, -1, 0] * 7))
    assert "index out of bounds" in text and "+ 10" in text
    assert "| ~" in text


@pytest.mark.parametrize(("dtype", "kind", "atomic"), [
    (F32, "sum", True), (torch.int64, "max", True), (F32, "max", False),
])  # fmt: skip
def test_updates_are_atomic_or_rejected(dtype, kind, atomic):
    """An update is atomic; an atomic maximum of floats is rejected, because CUDA's drops NaN."""
    x, index, values = torch.zeros(4).to(dtype), torch.tensor([1, 1, 2]), torch.tensor([1, 2, 3]).to(dtype)

    def f(x, index, values):
        return x.scatter_reduce(0, index, values, "sum" if kind == "sum" else "amax")

    schedule = programs(f, x, index, values)[1]
    if atomic:
        texts = [kernel.source for kernel in generator.emit(schedule).kernels]
        assert any(f"tl.atomic_{'add' if kind == 'sum' else 'max'}(" in text for text in texts)
    else:
        with pytest.raises(NoTriton, match=f"an atomic {kind} of float32"):
            generator.emit(schedule)


def test_a_variable_is_not_assigned_again():
    """An expression is assigned to a new name; a name is used as it is."""
    made = emitter()
    assert triton_values.assign(made, "x1") == "x1"
    assert triton_values.assign(made, "x1 + 1") == "t1"
    assert lines(made) == ["t1 = x1 + 1"]
    assert triton_values._operand("x1") == "x1" and triton_values._operand("x1 + 1") == "(x1 + 1)"


def test_conditions_on_indices_are_computed_once():
    """A condition on indices is computed once per mask; a condition on loaded values is not shared."""
    condition: Expr = Apply("lt", (Constant(1, torch.int64), Constant(2, torch.int64)), torch.bool)
    made = emitter()
    name = triton_values.condition_name(made, condition)
    assert triton_values.condition_name(made, condition) == name
    made.mask = "other"
    assert triton_values.condition_name(made, condition) != name
    assert not triton_values.depends_on_indices_alone(Apply("lt", (load(), load()), torch.bool))
