"""Bodies as C++ over lanes: the forms of loads, common subexpressions, and hoisting."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sympy
import torch

import nbcompile
from nbcompile import config
from nbcompile.codegen.vector_expr import emit_value
from nbcompile.codegen.vector_scope import KernelNames, Scope, Value, as_vector
from nbcompile.codegen.writer import SourceWriter
from nbcompile.ir.expr import Gather, IndexOf, Load, Masked, apply, constant
from nbcompile.ir.index import gather_variable, loop_variable
from nbcompile.runtime import processor
from tests.support.processes import python

F32, I64 = torch.float32, torch.int64
i0, i1, g0 = loop_variable(0), loop_variable(1), gather_variable(3)


def scope(vector=i1, **more) -> Scope:
    return Scope(
        SourceWriter(),
        KernelNames({"x": "in0", "y": "in1", "row_x": "row0"}, extents={i1: sympy.Integer(40)}),
        vector,
        {},
        **more,
    )


def x(index, *gathers, buffer="x", dtype=F32) -> Load:
    return Load(buffer, (sympy.sympify(index),), dtype, gathers)


def everything(body, **more) -> str:
    """The lines, and the value."""
    made = scope(**more)
    value = emit_value(made, body)
    return made.writer.text() + value.text


def test_what_is_used_twice_is_computed_once():
    """A value with two uses is computed once; a short value with one use is inlined."""
    made, body = scope(), apply("exp", x(i1))
    value = emit_value(made, apply("mul", body, body))
    assert made.writer.text().count("exp(") == 1 and value.text.count("t") == 2
    assert everything(body).strip() == "exp(load<f32, W>(in0 + i1, lanes))"


def test_zeros_of_unlike_signs_are_two_values():
    """``x + 0.0`` and ``x + -0.0`` differ for ``x = -0.0``: they are not merged."""
    made = scope()
    emit_value(made, apply("add", x(i1), constant(0.0, F32)))
    second = emit_value(made, apply("add", x(i1), constant(-0.0, F32)))
    assert "-0.0f" in second.text


def test_a_masked_value_is_computed_again_outside_of_the_mask():
    """Inactive lanes have undefined values, so values are shared under the same mask only; masks nest."""
    load = x(i1)
    condition = apply("lt", IndexOf(i1, I64), constant(3, I64))
    made = scope()
    value = emit_value(made, apply("add", Masked(condition, load, constant(0.0, F32)), load))
    text = made.writer.text() + value.text
    assert "load<f32, W>(in0 + i1, m1_lanes)" in text and "load<f32, W>(in0 + i1, lanes)" in text
    inner = Masked(apply("lt", IndexOf(i1, I64), constant(2, I64)), load, constant(1.0, F32))
    outer_mask, inner_mask = re.findall(
        r"(m\d+)_lanes = mask_of", everything(Masked(condition, inner, constant(0.0, F32)))
    )
    nested = everything(Masked(condition, inner, constant(0.0, F32)))
    assert f"{inner_mask}_lanes = mask_of<W>({outer_mask}_lanes) & {inner_mask}" in nested


def test_an_index_from_memory_is_checked_once():
    """Two gathers with the same value and size share the check; another size has another check."""
    ids = Load("y", (i1,), I64)
    made = scope()
    one, two = (Gather(symbol, ids, sympy.Integer(5), True) for symbol in (g0, gather_variable(4)))
    emit_value(made, apply("add", x(g0, one), x(two.symbol + 5, two)))
    assert len(made.names.error_messages) == made.writer.text().count("checked_index(") == 1
    emit_value(made, x(g0, Gather(g0, ids, sympy.Integer(6), True)))
    assert len(made.names.error_messages) == 2


def test_a_divisor_is_checked_where_it_may_be_zero():
    """An integer divisor is checked unless it is a constant; floats may divide by zero."""
    for args, checks in [((x(i1, dtype=I64), x(i1, buffer="y", dtype=I64)), 1), ((x(i1, dtype=I64), constant(3, I64)), 0),
                         ((x(i1), x(i1, buffer="y")), 0)]:  # fmt: skip
        made = scope()
        emit_value(made, apply("fmod", *args))
        assert len(made.names.error_messages) == checks


def test_a_scalar_is_broadcast_where_it_joins_a_vector():
    """A scalar is broadcast only where it is combined with a vector."""
    made = scope()
    scalar = emit_value(made, apply("add", x(i0), constant(1.0, F32)))
    assert not scalar.is_vector and as_vector(made, scalar).startswith("F32(")
    assert ("f32", True) in made.names.used_types
    assert as_vector(made, Value("v", True, F32)) == "v"


@pytest.mark.parametrize("instructions", ["avx512", "avx2", "generic"])
def test_a_masked_part_is_not_loaded_where_the_other_is_chosen(instructions):
    """Both sides of a mask are loaded under it: next to the memory of either are pages that cannot be accessed."""
    if lacking := processor.lacking(instructions):
        pytest.skip(f"this processor has no {lacking}")
    python(Path(__file__).parent / "accesses_shown.py", NBCOMPILE_INSTRUCTION_SET=instructions)


def test_an_index_of_the_other_part_is_not_checked():
    """Memory in front of an index that is not chosen may hold any number, which is no index out of bounds."""
    numbers = torch.full((64,), 10**6)
    index = numbers[8:11].copy_(torch.tensor([3, 2, 1]))
    x = torch.arange(32.0).view(4, 8)

    def f(x, index):
        return torch.cat([x[:2] * 2, x[index] * 3])

    torch.testing.assert_close(nbcompile.compile(f)(x, index), f(x, index), rtol=0, atol=0)


def known_numbers(x):
    """Numbers that the C++ compiler could compute: it has 0 or the largest integer where the processor has the smallest."""
    a, inf = torch.arange(3.0), torch.full((3,), float("inf"))
    b = a.double()
    kinds = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
    return [
        *((a / a).to(kind) for kind in kinds), *((a * 1e10).to(kind) for kind in kinds), (b / b).long(), (a - 1).sqrt().long(),
        (a * inf).long(), (inf - inf).long(), (a * inf - a * inf).int(), (a * 1e30 * 1e30).long(), (a * float("nan")).int(),
        torch.full((3,), float("nan")).long(), (a.bfloat16() / a.bfloat16()).long(), (a - 300).to(torch.uint8),
        torch.eye(3).div(torch.eye(3)).long(), x + (a / a).int(), (a / a).signbit(), (b / b).signbit(), (x * 0 + a / a).long(),
    ]  # fmt: skip


@pytest.mark.parametrize("instructions", ["avx512", "avx2", "generic"])
def test_numbers_that_are_known_are_converted_as_the_processor_converts_them(instructions):
    """0 / 0, infinity and large numbers as integers, and the sign of NaN, are eager mode's without any input."""
    if lacking := processor.lacking(instructions):
        pytest.skip(f"this processor has no {lacking}")
    with config.patch(instruction_set=instructions):
        found = nbcompile.compile(known_numbers)(torch.ones(3))
    for number, (one, other) in enumerate(zip(found, known_numbers(torch.ones(3)), strict=True)):
        torch.testing.assert_close(one, other, rtol=0, atol=0, msg=f"{number}: {one} {other}")
