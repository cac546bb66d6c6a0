"""Statements of a kernel as C++, and the cached values that they invalidate."""

from __future__ import annotations

import pytest
import sympy
import torch

from nbcompile.codegen.emitter import KernelEmitter, scope_of
from nbcompile.codegen.kernel_analysis import NonTemporalStore
from nbcompile.codegen.statements import emit_statement
from nbcompile.codegen.vector_scope import KernelNames, Scope
from nbcompile.codegen.writer import SourceWriter
from nbcompile.ir.buffer import Program
from nbcompile.ir.expr import Gather, IndexOf, Load, Local, apply
from nbcompile.ir.index import gather_variable, loop_variable
from nbcompile.ir.kernel import Kernel, Let, Loop, Schedule, Store, Update

CPU, F32, I64 = torch.device("cpu"), torch.float32, torch.int64
i0, g0 = loop_variable(0), gather_variable(0)
X = Load("x", (i0,), F32)
EXP = apply("exp", X)
SQUARE = apply("mul", EXP, EXP)


def emitted(vector=i0, **more) -> tuple[KernelEmitter, Scope]:
    kernel = Kernel("k", CPU, (Loop(i0, sympy.Integer(64)),), (), (), ("x",), ("y", "x"))
    names = KernelNames({"x": "in0", "y": "out0", "row_y": "row0"})
    made = KernelEmitter(kernel, Schedule(Program((), (), 0), ()), SourceWriter(), names, {}, {}, {}, **more)
    return made, scope_of(made, vector)


def last(made: KernelEmitter) -> str:
    return made.writer.text().splitlines()[-1].strip()


@pytest.mark.parametrize(
    ("offset", "text"),
    [
        (i0, "store(out0 + i0, lanes, load<f32, W>(in0 + i0, lanes));"),
        (2 * i0, "scatter(out0, lanes, load<f32, W>(in0 + i0, lanes), [&](i64 j) { return 2*(i0 + j); });"),
    ],
)
def test_a_store_is_contiguous_or_by_lane(offset, text):
    """A store is contiguous if its index has stride 1 along the lanes, and otherwise lane by lane."""
    made, scope = emitted()
    emit_statement(made, scope, Store("y", offset, X))
    assert last(made) == text


def test_a_whole_row_is_stored_without_a_mask():
    """A scratch row is padded, so it is stored whole: a masked store would delay later loads."""
    made, scope = emitted()
    emit_statement(made, scope, Store("row_y", i0, X))
    assert last(made).startswith("store(row0 + i0, All{}, ")


@pytest.mark.parametrize(
    ("size", "lines", "call"),
    [
        (1 << 30, False, "nt_store("),
        (1 << 30, True, "nt_store_lines_if(true, "),
        (None, False, "nt_store_if(out0_is_large, "),
    ],
)
def test_large_results_bypass_the_cache(size, lines, call):
    """A large result is stored non-temporally; a symbolic size is compared; a vector may be half a cache line."""
    symbol = sympy.Symbol("n", integer=True, positive=True)
    large = NonTemporalStore(symbol if size is None else sympy.Integer(size), 1, lines)
    made, scope = emitted(non_temporal={"y": large})
    emit_statement(made, scope, Store("y", i0, X))
    assert last(made).startswith(call)


def test_what_was_loaded_before_a_store_is_stale():
    """A store invalidates loads of its buffer; loads of other buffers are reused."""
    for buffer, loads in (("x", 2), ("y", 1)):
        made, scope = emitted()
        emit_statement(made, scope, Let("a", SQUARE))
        emit_statement(made, scope, Store(buffer, i0, Local("a", F32)))
        emit_statement(made, scope, Let("b", SQUARE))
        assert made.writer.text().count("exp(") == loads


def test_an_update_may_change_any_load():
    """An update has a dynamic address, so it invalidates all loads."""
    made, scope = emitted(vector=None)
    emit_statement(made, scope, Let("a", SQUARE))
    emit_statement(made, scope, Update("y", IndexOf(i0, I64), Local("a", F32), "sum"))
    emit_statement(made, scope, Let("b", SQUARE))
    assert made.writer.text().count("exp(") == 2


def test_an_update_out_of_bounds_writes_nothing():
    """An update is conditional on its index check; a combining update loads and stores the same address."""
    gather = Gather(g0, Load("x", (i0,), I64), sympy.Integer(5), True)
    made, scope = emitted(vector=None)
    emit_statement(made, scope, Update("y", IndexOf(8 * g0, I64, (gather,)), X, "sum"))
    name = last(made).partition("if (")[2].partition("_in_range")[0]
    address = f"out0 + 8*{name}"
    assert last(made).startswith(
        f"if ({name}_in_range) store({address}, All{{}}, Sum::join(load<f32, 1>({address}, All{{}}), "
    )
    made, scope = emitted(vector=None)
    emit_statement(made, scope, Update("y", IndexOf(i0, I64), X, "store"))
    assert "join" not in last(made) and "if" not in last(made)


def test_a_name_of_the_vector_loop_is_not_moved_before_it():
    """A local of the vector loop is not hoisted; a local of a scope without lanes may be."""
    for vector, inner in ((i0, {"a"}), (None, set())):
        made, scope = emitted(vector)
        emit_statement(made, scope, Let("a", X))
        assert scope.inner == inner and made.locals["a"].text == "v0"
        assert last(made).endswith("// a")
