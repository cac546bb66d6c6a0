"""Analyses of a kernel before code generation."""

from __future__ import annotations

import sympy
import torch

from nbcompile.codegen.kernel_analysis import (
    estimate_work,
    non_temporal_stores,
    prefetched_rows,
    releases_gil,
    size_symbols,
    stored_buffers,
    trip_count,
    unconditional_loads,
)
from nbcompile.codegen.machine_model import GIL_RELEASE_WORK, NON_TEMPORAL_BYTES, PREFETCH_ROWS
from nbcompile.ir.buffer import BufferView, GraphInput, Pointwise, Program
from nbcompile.ir.expr import Gather, IndexOf, Load, Masked, apply, constant
from nbcompile.ir.index import gather_variable, indices, loop_variable, reduction_variable
from nbcompile.ir.kernel import Accumulate, Kernel, Loop, Nest, Schedule, Store, Update
from nbcompile.ir.layout import contiguous

CPU, F32, I64 = torch.device("cpu"), torch.float32, torch.int64
i0, r0, r1 = loop_variable(0), reduction_variable(0), reduction_variable(1)
N, M = (sympy.Symbol(name, integer=True, positive=True) for name in "nm")
X = Load("x", (i0,), F32)


def kernel(loops, *body, reads=("x",), writes=("y",)) -> Kernel:
    return Kernel(
        "k", CPU, tuple(Loop(variable, sympy.sympify(size)) for variable, size in loops), body, (), reads, writes
    )


def test_work_is_known_where_all_sizes_are():
    """A copy counts as work; a kernel with symbolic work releases the GIL, as a long one does."""
    copy = Store("y", i0, X)
    assert estimate_work(kernel([(i0, 10)], copy)) == 10
    assert estimate_work(kernel([(i0, 10)], copy, Nest((Loop(r0, sympy.Integer(7)),), (copy,)))) == 80
    assert estimate_work(kernel([], copy)) == 1, "no loop is one iteration"
    for unknown in (kernel([(i0, N)], copy), kernel([(i0, 3)], Nest((Loop(r0, N),), (copy,)))):
        assert estimate_work(unknown) is None and releases_gil(unknown)
    assert not releases_gil(kernel([(i0, GIL_RELEASE_WORK)], copy)) and releases_gil(
        kernel([(i0, GIL_RELEASE_WORK + 1)], copy)
    )
    assert trip_count((Loop(i0, sympy.Integer(3)), Loop(r0, sympy.Integer(0)))) == 0


def test_sizes_that_a_kernel_asks_for():
    """A kernel takes the symbols of loops, offsets, gathers and scratch, sorted by name, without bound variables."""
    g0 = gather_variable(0)
    gather = Gather(g0, Load("ids", (i0,), I64), M, True)
    found = kernel([(i0, N)], Update("y", IndexOf(g0, I64, (gather,)), X, "sum"))
    assert size_symbols(found) == (M, N)
    assert size_symbols(kernel([(i0, 4)], Store("y", N * i0, X))) == (N,)
    assert size_symbols(kernel([(i0, 4)], Nest((Loop(r0, sympy.Integer(2)),), (Store("y", i0 + r0, X),)))) == ()
    assert size_symbols(kernel([(i0, 4)], Nest((Loop(r0, M),), (Accumulate("a", "argmax", X, N * r0),)))) == (M, N)


def test_a_load_under_a_mask_is_not_moved_before_it():
    """Both sides of a mask are loaded under it; the condition is loaded in any case."""
    a, b, c = (Load(name, (i0,), F32) for name in "abc")
    body = apply("add", Masked(apply("lt", c, constant(0.0, F32)), a, b), c)
    assert {load.buffer for load in unconditional_loads(body)} == {"c"}


def test_buffers_that_are_written():
    """Stores and updates write buffers, in a nest, too; an accumulator is a local."""
    update = Update("z", IndexOf(r0, I64), X, "sum")
    parts = (Store("y", i0, X), Nest((Loop(r0, sympy.Integer(2)),), (update, Accumulate("a", "sum", X, i0))))
    assert stored_buffers(parts) == {"y", "z"} and stored_buffers(()) == frozenset()


def schedule(size, *, read_again=False) -> tuple[Kernel, Schedule]:
    layout = contiguous(indices((size,)))
    x = GraphInput("x", F32, CPU, layout, 0)
    y = Pointwise("y", F32, CPU, layout, X)
    first = kernel([(i0, size)], Store("y", i0, X))
    again = kernel([(i0, size)], Store("z", i0, Load("y", (i0,), F32)), reads=("y",), writes=("z",))
    z = Pointwise("z", F32, CPU, layout, Load("y", (i0,), F32))
    steps = (first, again) if read_again else (first,)
    return first, Schedule(Program((x, y, z), (BufferView("z", layout),), 1), steps)


def test_only_large_results_that_nothing_reads_bypass_the_cache():
    """A large result that nothing reads is stored non-temporally; a symbolic size is compared at each call."""
    large = NON_TEMPORAL_BYTES // 4
    assert set(non_temporal_stores(*schedule(large), scattered=())) == {"y"}
    assert non_temporal_stores(*schedule(large - 1), scattered=()) == {}
    assert non_temporal_stores(*schedule(large, read_again=True), scattered=()) == {}
    assert set(non_temporal_stores(*schedule(large, read_again=True), scattered={"y"})) == {"y"}, "no hardware prefetch"
    symbolic = non_temporal_stores(*schedule(N), scattered=())["y"]
    assert symbolic.is_large("out0") == "out0_is_large" and not symbolic.is_small
    first, plan = schedule(N)
    unknown = kernel([(i0, 4)], *first.body)
    assert non_temporal_stores(unknown, plan, scattered=()) == {}


def passes(length, rows) -> Kernel:
    """A kernel with two passes over each row of x."""

    def load(at):
        return Load("x", (length * i0 + at,), F32)

    first = Nest((Loop(r0, sympy.Integer(length)),), (Accumulate("a", "sum", load(r0), r0),))
    second = Nest((Loop(r1, sympy.Integer(length)),), (Store("y", length * i0 + r1, load(r1)),))
    return kernel([(i0, rows)], first, second)


def test_a_later_pass_prefetches_the_next_rows():
    """A later pass prefetches the rows that the first pass loads next, some rows ahead."""
    found = passes(1024, 1 << 14)
    first, second = found.body
    (load,) = prefetched_rows(found, second)
    assert load.index[0].subs({i0: 3, r1: 5}) == 1024 * (3 + PREFETCH_ROWS) + 5
    assert prefetched_rows(found, first) == ()
    for small in (passes(1024, 2), passes(4, 1 << 10)):
        assert prefetched_rows(small, small.body[1]) == (), "all of it is in a cache"
    alone = kernel([(i0, 1 << 14)], first)
    assert prefetched_rows(alone, first) == ()
