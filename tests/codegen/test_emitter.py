"""Outer loops of a kernel: how many threads share them, and where scratch buffers are allocated."""

from __future__ import annotations

import pytest
import sympy
import torch

from nbcompile.codegen.emitter import KernelEmitter, declare_stack_rows, outer_loops
from nbcompile.codegen.kernel_analysis import NonTemporalStore
from nbcompile.codegen.machine_model import ALIGNED_SIZE, SERIAL_WORK, STACK_BYTES
from nbcompile.codegen.vector_scope import KernelNames
from nbcompile.codegen.writer import SourceWriter
from nbcompile.ir.buffer import Program
from nbcompile.ir.expr import Load
from nbcompile.ir.index import loop_variable
from nbcompile.ir.kernel import Kernel, Loop, Schedule, Scratch, Store

CPU, F32 = torch.device("cpu"), torch.float32
i0, i1 = loop_variable(0), loop_variable(1)
N = sympy.Symbol("n", integer=True, positive=True)


def emitter(*sizes, scratch=(), **more) -> KernelEmitter:
    loops = tuple(Loop(variable, sympy.sympify(size)) for variable, size in zip((i0, i1), sizes, strict=False))
    kernel = Kernel("k", CPU, loops, (Store("y", i0, Load("x", (i0,), F32)),), tuple(scratch), ("x",), ("y",))
    names = KernelNames({"y": "out0", **{row.name: f"row{at}" for at, row in enumerate(scratch)}})
    return KernelEmitter(kernel, Schedule(Program((), (), 0), ()), SourceWriter(), names, {}, {}, {}, **more)


def lines(made: KernelEmitter) -> list[str]:
    with outer_loops(made, made.kernel.loops):
        made.writer.line("body;")
    return [line.strip() for line in made.writer.text().splitlines()]


@pytest.mark.parametrize(
    ("sizes", "pragma"),
    [
        ((SERIAL_WORK - 1,), None),
        ((SERIAL_WORK,), "#pragma omp parallel for num_threads(context->threads)"),
        ((2, SERIAL_WORK), "#pragma omp parallel for collapse(2) num_threads(context->threads)"),
        ((), None),
    ],
)
def test_threads_share_what_is_worth_it(sizes, pragma):
    """Outer loops are collapsed, and parallel only above a minimum of work; braces always match."""
    found = lines(emitter(*sizes))
    assert next((line for line in found if line.startswith("#")), None) == pragma
    assert sum(line.count("{") for line in found) == sum(line.count("}") for line in found) == max(len(sizes), 1)


def test_a_symbolic_amount_is_compared_at_each_call():
    """A symbolic number of iterations is compared with the minimum at each call."""
    (pragma,) = (line for line in lines(emitter(N)) if line.startswith("#"))
    assert pragma.endswith(f"if (n > {SERIAL_WORK // 4})")


@pytest.mark.parametrize("size", [SERIAL_WORK, 4])
def test_each_thread_has_a_large_row_of_its_own(size):
    """A large scratch row is allocated in the parallel region, before its loops; without threads, in a block."""
    row = Scratch("row_a", F32, sympy.Integer(STACK_BYTES))
    found = lines(emitter(size, scratch=[row]))
    at = {
        text: next(at for at, line in enumerate(found) if line.startswith(text))
        for text in ("Row<f32> row0_memory", "for (")
    }
    assert at["Row<f32> row0_memory"] < at["for ("]
    assert (found[0] == "#pragma omp parallel num_threads(context->threads)") is (size == SERIAL_WORK)
    assert found[-1] == "}" and sum(line.count("{") - line.count("}") for line in found) == 0


def test_a_small_row_is_on_the_stack_in_whole_vectors():
    """A small scratch row is on the stack, padded to whole vectors; one without elements has one vector."""
    rows = [Scratch("a", F32, sympy.Integer(17)), Scratch("b", F32, sympy.Integer(0)), Scratch("c", F32, N)]
    made = emitter(4, scratch=rows)
    declare_stack_rows(made, rows)
    text = made.writer.text()
    assert f"f32 row0[{2 * ALIGNED_SIZE}]" in text and f"f32 row1[{ALIGNED_SIZE}]" in text and "row2" not in text


def test_a_fence_ends_the_part_of_each_thread():
    """The fence of non-temporal stores is after the loops and in the parallel region: it runs in each thread."""
    large = {"y": NonTemporalStore(sympy.Integer(1 << 30), 1, False)}
    found = lines(emitter(SERIAL_WORK, non_temporal=large))
    assert found[-2:] == ["nt_store_fence();", "}"] and found[0].startswith("#pragma omp parallel num_threads")


def test_labels_are_numbered_by_first_use():
    """Labels are numbered by first use, so that kernels with other buffer names have equal text."""
    made = emitter(4)
    assert [made.label(name) for name in ("buf7", "buf3", "buf7")] == ["v0", "v1", "v0"]
