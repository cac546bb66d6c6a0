"""Scopes of vector code: loop-invariant values, and the number of lanes."""

from __future__ import annotations

import sympy
import torch

from nbcompile.codegen.vector_expr import emit_value
from nbcompile.codegen.vector_scope import Value, has_64_bit_lanes, varies
from nbcompile.codegen.writer import SourceWriter
from nbcompile.ir.expr import Gather, IndexOf, Local, Masked, apply, cast, constant
from nbcompile.ir.index import gather_variable, loop_variable
from tests.codegen.test_vector_expr import scope, x

F32, I64 = torch.float32, torch.int64


i0, i1, g0 = loop_variable(0), loop_variable(1), gather_variable(3)


def test_only_what_the_loop_does_not_change_is_moved_before_it():
    """A load of a buffer that the loop writes, or a masked load, is not hoisted."""
    uniform = apply("exp", x(40 * i0))
    made = scope(shared=SourceWriter())
    emit_value(made, apply("add", uniform, x(i1)))
    assert "exp(" in made.shared.text() and "exp(" not in made.writer.text()
    for more, body in [
        ({"stored": frozenset({"x"})}, apply("add", uniform, x(i1, buffer="y"))),
        ({}, Masked(apply("lt", IndexOf(i1, I64), constant(3, I64)), uniform, constant(0.0, F32))),
    ]:
        made = scope(shared=SourceWriter(), **more)
        emit_value(made, body)
        assert "exp(" not in made.shared.text()


def test_lanes_are_halved_by_64_bits():
    """A 64-bit vector, or a 64-bit gather index, halves the lanes; a uniform number does not."""
    made = scope()
    made.locals.update(v=Value("v", True, F32), s=Value("s", False, F32))
    assert varies(made, Local("v", F32)) and not varies(made, Local("s", F32)) and varies(made, IndexOf(i1, I64))
    assert has_64_bit_lanes(made, cast(x(i1, dtype=I64), F32)) and not has_64_bit_lanes(made, x(i1))
    assert not has_64_bit_lanes(made, apply("add", x(i1), cast(x(i0, dtype=I64), F32)))
    assert has_64_bit_lanes(made, x(g0, Gather(g0, cast(x(i1, dtype=torch.int32), I64), sympy.Integer(4), True)))
