"""Buffers of a program, and lookups in it."""

from __future__ import annotations

import torch

from nbcompile.ir.buffer import (
    BufferView,
    Extern,
    ExternOutput,
    Pointwise,
    Program,
    Reduction,
    Scatter,
    ranges,
    views_in,
)
from nbcompile.ir.expr import IndexOf, constant
from nbcompile.ir.index import indices, loop_variable, reduction_variable
from nbcompile.ir.layout import contiguous

CPU, F32 = torch.device("cpu"), torch.float32
i0, i1, r0 = loop_variable(0), loop_variable(1), reduction_variable(0)
ONE = constant(1.0, F32)


def layout(*size):
    return contiguous(indices(size))


def test_loops_of_a_body():
    """The reduced loops of a reduction come last; the loops of a scatter are those of the updates."""
    assert ranges(Pointwise("a", F32, CPU, layout(2, 3), ONE)) == {i0: 2, i1: 3}
    assert ranges(Pointwise("a", F32, CPU, layout(), ONE)) == {}
    summed = Reduction("b", F32, CPU, layout(2), ONE, "sum", indices((5,)), F32)
    assert list(ranges(summed).items()) == [(i0, 2), (r0, 5)]
    position = (IndexOf(i0, torch.int64), IndexOf(i0, torch.int64))
    updates = Scatter("c", F32, CPU, layout(2, 3), ONE, indices((7,)), position, "sum", "a")
    assert ranges(updates) == {i0: 7}


def test_tensors_of_a_call_are_found_wherever_they_are():
    """The tensors of nested lists, tuples and dicts are listed in order, repeated ones included."""
    x, y = BufferView("x", layout(2)), BufferView("y", layout())
    assert list(views_in((1, [x, None], {"a": (y,), "b": {"c": [x]}}, "x"))) == [x, y, x]
    assert list(views_in(x)) == [x] and list(views_in({})) == []


def test_a_call_and_its_results():
    """A call has no layout and is no tensor; its results are found by its name, in order."""
    call = Extern("call", torch.ops.aten.topk.default, (), {}, "no lowering")
    results = [ExternOutput(f"out{at}", F32, CPU, layout(2), "call", (at,)) for at in (1, 0)]
    other = ExternOutput("other", F32, CPU, layout(2), "later", ())
    program = Program((call, *results, other), (), 0)
    assert set(program.tensors()) == {"out0", "out1", "other"}
    assert program.outputs_of == {"call": tuple(results), "later": (other,)}


def test_a_call_with_lists_among_its_arguments_is_hashable():
    """Passes keep calls in sets; calls with different arguments are unequal."""
    first, second = (Extern("a", len, ([size],), {}, "") for size in (1, 2))
    assert len({first, second}) == 2 and hash(first) == hash(second)


def test_programs_are_equal_by_what_they_say():
    """Tables for lookups do not count in comparisons of programs."""
    first, second = (Program((Pointwise("a", F32, CPU, layout(2), ONE),), (), 0) for _ in range(2))
    assert first == second and first.by_name is not second.by_name
