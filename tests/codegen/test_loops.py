"""Vectorised loops: the calls of the step for a length, and the number of accumulators."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sympy
import torch

from nbcompile.codegen.emitter import KernelEmitter
from nbcompile.codegen.loops import accumulator_count, emit_outer_vector_loop, emit_vector_nest, is_chunked
from nbcompile.codegen.machine_model import CHEAP_UNROLL, CHUNKS, COSTLY_UNROLL, LONG_REDUCTION, OUTER_BLOCK
from nbcompile.codegen.vector_scope import KernelNames
from nbcompile.codegen.writer import SourceWriter
from nbcompile.ir.buffer import Program
from nbcompile.ir.expr import Load, Local, apply
from nbcompile.ir.index import loop_variable, reduction_variable
from nbcompile.ir.kernel import Accumulate, Carry, Kernel, Let, Loop, Nest, Schedule, Scratch, Store

CPU, F32 = torch.device("cpu"), torch.float32
i0, i1, r0, r1 = loop_variable(0), loop_variable(1), reduction_variable(0), reduction_variable(1)
N = sympy.Symbol("n", integer=True, positive=True)
SUM = Accumulate("a", "sum", Load("x", (r0,), F32), r0)


def loops(*pairs):
    """Loops with their sizes."""
    return tuple(Loop(variable, sympy.sympify(size)) for variable, size in pairs)


def kernel(outer, *body, vector=r0, scratch=()):
    """A kernel that reads x and writes y."""
    return Kernel("k", CPU, loops(*outer), body, scratch, ("x",), ("y",), vector_variable=vector)


def text_of(emit, made, *more):
    """The C++ that is emitted for a kernel."""
    names = KernelNames({"x": "in0", "y": "out0"})
    emitter = KernelEmitter(made, Schedule(Program((), (), 0), ()), SourceWriter(), names, {}, {}, {})
    emit(emitter, *more)
    return emitter.writer.text()


def outer(size, *before):
    """A kernel without inner loops, whose last outer loop is vectorised."""
    return text_of(
        emit_outer_vector_loop, kernel((*before, (i0, size)), Store("y", i0, Load("x", (i0,), F32)), vector=i0)
    )


def nest(size, *parts, count=1, more=()):
    """A nest in a kernel of ``count`` outer iterations."""
    body = Nest(loops(*more, (r0, size)), parts or (SUM,))
    return text_of(emit_vector_nest, kernel([(i0, count)], body), body)


@pytest.mark.parametrize(("size", "tail"), [(64, False), (16, False), (70, True), (3, True), (N, True)])
def test_a_multiple_of_sixteen_has_no_tail(size, tail):
    """A multiple of 16 has no remainder in any vector width; otherwise the remainder is one masked step."""
    assert ("step(First{" in outer(size)) is tail
    assert ("step(First{" in nest(size)) is tail
    assert "step(All{}, i0)" in outer(size) and "step(All{}, r0, 0)" in nest(size)


@pytest.mark.parametrize(("size", "blocks"), [(OUTER_BLOCK, False), (OUTER_BLOCK + 1, True), (N, True)])
def test_a_long_outer_loop_is_shared_in_blocks(size, blocks):
    """Threads take blocks of a long outer loop, as OpenMP cannot split a loop with a remainder."""
    found = outer(size)
    assert (f"block += {OUTER_BLOCK}" in found) is blocks
    assert (f"min_of(block + {OUTER_BLOCK}, {'n' if size is N else size})" in found) is blocks
    assert ("i64 i0 = block;" in found) is blocks


def test_outer_loops_are_around_the_vectorised_one():
    """Only the last outer loop is vectorised."""
    found = outer(32, (i1, 5))
    assert found.index("for (i64 i1 = 0; i1 < 5; i1++)") < found.index("const auto step") < found.index("i0 += W")


def test_accumulators_take_turns_in_the_unrolled_loop():
    """The calls in an unrolled loop use different accumulators; remaining vectors and the tail use the first."""
    found = nest(100)
    steps = " ".join(f"step(All{{}}, r0{f' + {at}*W' if at else ''}, {at});" for at in range(CHEAP_UNROLL))
    assert f"r0 += {CHEAP_UNROLL}*W) {{ {steps} }}" in found
    assert "r0 += W) step(All{}, r0, 0);" in found and "step(First{100 - r0}, r0, 0);" in found
    assert "r0 += W)" not in nest(16 * CHEAP_UNROLL), "whole rounds leave no vector over"


def test_costly_bodies_have_fewer_accumulators():
    """An expensive body has fewer accumulators, because it needs more registers; a short row has one."""
    exp = Accumulate("a", "sum", apply("exp", apply("exp", Load("x", (r0,), F32))), r0)
    costly = Accumulate("a", "sum", apply("tanh", apply("erf", exp.value)), r0)
    assert accumulator_count(Nest(loops((r0, 1000)), (SUM,))) == CHEAP_UNROLL
    assert accumulator_count(Nest(loops((r0, 1000)), (costly,))) == COSTLY_UNROLL
    assert accumulator_count(Nest(loops((r0, N)), (SUM,))) == CHEAP_UNROLL
    assert accumulator_count(Nest(loops((r0, 31)), (SUM,))) == 1 < accumulator_count(Nest(loops((r0, 32)), (SUM,)))


def test_a_nest_without_accumulators_is_not_unrolled():
    """A nest that only stores is not unrolled: its step has no accumulator index."""
    found = nest(100, Store("y", r0, Load("x", (r0,), F32)))
    assert "[&](auto lanes, i64 r0) STEP" in found and "step(All{}, r0);" in found and "*W" not in found


def test_the_last_loop_of_a_nest_is_vectorised():
    """The loops of a nest before the last one are scalar loops around the step."""
    found = nest(100, more=((r1, 7),))
    assert found.index("for (i64 r1 = 0; r1 < 7; r1++)") < found.index("const auto step")


def test_one_long_reduction_is_shared_in_chunks():
    """A long reduction without outer loops is split into chunks, unless it has a scan or scratch rows."""
    long = Nest(loops((r0, LONG_REDUCTION)), (SUM,))
    assert is_chunked(kernel([], long), long) and is_chunked(kernel([(i0, 1)], long), long)
    assert not is_chunked(kernel([(i0, 2)], long), long) and not is_chunked(kernel([(i0, N)], long), long)
    short = Nest(loops((r0, LONG_REDUCTION - 1)), (SUM,))
    stored = Nest(long.loops, (Store("y", r0, Load("x", (r0,), F32)),))
    scan = Nest(long.loops, (SUM, Carry("c", "sum", SUM.value)))
    for other in (short, stored, scan):
        assert not is_chunked(kernel([], other), other)
    assert not is_chunked(kernel([], long, scratch=(Scratch("row", F32, sympy.Integer(4)),)), long)
    unknown = Nest(loops((r0, N)), (SUM,))
    assert is_chunked(kernel([], unknown), unknown), "the kernel decides when it knows the length"


def test_chunks_are_combined_in_their_order():
    """The number of chunks does not depend on the number of threads, so that a sum is bitwise reproducible."""
    found = nest(LONG_REDUCTION)
    assert f"for (int chunk = 0; chunk < {CHUNKS}; chunk++) {{" in found
    assert f"for (int chunk = 0; chunk < {CHUNKS}; chunk++) v0_acc[0] = Sum::join(v0_acc[0], v0_chunk[chunk]);" in found
    assert found.index("num_threads(context->threads)") < found.index("v0_chunk[chunk] = v0_acc[0];")
    at_run_time = nest(N)
    assert f"n >= {LONG_REDUCTION} ? {CHUNKS} : 1;" in at_run_time and "if (chunks" in at_run_time


def test_a_chunk_of_several_loops_is_some_iterations_of_the_first():
    """A chunk of several loops has whole rows: iterations of the first loop."""
    found = nest(LONG_REDUCTION, more=((r1, 8),))
    assert "for (i64 r1 = begin; r1 < end; r1++) {" in found and f"<= {LONG_REDUCTION}; r0 += " in found


def test_iterations_that_may_conflict_run_in_order():
    """A kernel without a loop to vectorise has scalar loops, in order."""
    body = Nest(loops((r0, 10)), (Store("y", r0, Load("x", (r0,), F32)),))
    found = text_of(emit_vector_nest, kernel([], body, vector=None), body)
    assert "for (i64 r0 = 0; r0 < 10; r0++) {" in found and "step" not in found


def test_names_of_a_step_end_with_it():
    """After the step its locals are out of scope, and the accumulator's result is in scope."""
    body = Nest(loops((r0, 40)), (Let("inner", SUM.value), replace(SUM, value=Local("inner", F32))))
    made = kernel([(i0, 2)], body)
    names = KernelNames({"x": "in0", "y": "out0"})
    emitter = KernelEmitter(made, Schedule(Program((), (), 0), ()), SourceWriter(), names, {}, {}, {})
    emit_vector_nest(emitter, body)
    assert set(emitter.locals) == {"a"}
