"""Evaluation of expressions for all iterations of a loop nest at once."""

from __future__ import annotations

import pytest
import sympy
import torch

from nbcompile.ir.evaluate_loops import KernelRun, Scope
from nbcompile.ir.expr import Gather, IndexOf, Load, Local, Masked, apply, constant
from nbcompile.ir.index import FloorDiv, Mod, gather_variable, loop_variable, reduction_variable
from nbcompile.ir.kernel import Accumulate, Carry, Let, Store, Update

I64, F32 = torch.int64, torch.float32
N = sympy.Symbol("n", integer=True, positive=True)
i0, i1, r0, g0 = loop_variable(0), loop_variable(1), reduction_variable(0), gather_variable(0)


def scope(sizes=(2, 3), **tensors) -> Scope:
    return Scope({N: 5}, [i0, i1][: len(sizes)], sizes, lambda name, position: tensors[name][position])


@pytest.mark.parametrize(
    ("expression", "meaning"),
    [
        (i0 - 2 * i1, lambda i, j: i - 2 * j),
        (FloorDiv(i0 - i1, 2), lambda i, j: (i - j) // 2),
        (Mod(i1 + i0, 2), lambda i, j: (i + j) % 2),
        (sympy.Max(i0, i1, 1), lambda i, j: max(i, j, 1)),
        (sympy.Min(i0, i1), min),
        ((i0 + 1) ** 2, lambda i, j: (i + 1) ** 2),
        (N * i0, lambda i, j: 5 * i),
        (sympy.Integer(7), lambda i, j: 7),
    ],
)
def test_an_index_means_what_python_says(expression, meaning):
    """An index has Python's value in each iteration; quotients are rounded down, for negative numbers, too."""
    found = scope().evaluate_index(expression, {}).expand(2, 3)
    assert found.tolist() == [[meaning(i, j) for j in range(3)] for i in range(2)]


def test_an_index_without_a_meaning_is_rejected():
    """An unknown function in an index raises an error with its name."""
    with pytest.raises(NotImplementedError, match="sin"):
        scope().evaluate_index(sympy.sin(i0), {})


def test_a_masked_load_reads_nothing_where_the_mask_is_false():
    """A masked load may have an index out of bounds where the mask is false."""
    x = torch.tensor([10.0, 20.0])
    condition = apply("lt", IndexOf(i0, I64), constant(2, I64))
    body = Masked(condition, Load("x", (i0,), F32), Load("x", (i0 - 3,), F32))
    assert scope((5,), x=x).full(body).tolist() == [10.0, 20.0, 20.0, 10.0, 20.0]
    never = apply("lt", IndexOf(i0, I64), constant(-1, I64))
    assert scope((2,), x=torch.empty(0)).full(Masked(never, Load("x", (i0,), F32), constant(4.0, F32))).tolist() == [
        4.0,
        4.0,
    ]


@pytest.mark.parametrize(("wraps", "found"), [(True, [30.0, 10.0]), (False, None)])
def test_a_negative_index_counts_from_the_end_where_the_operator_says_so(wraps, found):
    """A negative index counts from the end if the operator allows it; otherwise it is eager mode's IndexError."""
    x, position = torch.tensor([10.0, 20.0, 30.0]), torch.tensor([-1, 0])
    body = Load("x", (g0,), F32, (Gather(g0, Load("position", (i0,), I64), sympy.Integer(3), wraps),))
    if found is not None:
        assert scope((2,), x=x, position=position).full(body).tolist() == found
    for wrong in (position if not wraps else torch.tensor([-4, 0]), torch.tensor([0, 3])):
        with pytest.raises(IndexError, match="index out of range in self"):
            scope((2,), x=x, position=wrong).full(body)


def test_a_type_that_the_tree_says_wrongly_is_found():
    """A wrong dtype in the tree is found at the load or the operation."""
    with pytest.raises(AssertionError, match="x is torch.int64"):
        scope((2,), x=torch.arange(2)).full(Load("x", (i0,), F32))


def test_locals_of_the_outer_loops_are_seen_inside():
    """A local of an outer loop has one value for all inner iterations; an undefined name is an error."""
    outer = scope((2,))
    outer.locals["t"] = torch.tensor([1.0, 2.0])
    inner = outer.nested([r0], [3])
    assert inner.full(Local("t", F32)).tolist() == [[1.0] * 3, [2.0] * 3]
    with pytest.raises(AssertionError, match="other is not defined here"):
        inner.full(Local("other", F32))


def test_statements():
    """Statements: a local, a store, updates of one element in order, and the result of an inner loop."""
    memory = {"out": torch.zeros(3), "total": torch.zeros(2)}
    run, outer = KernelRun(memory, {}, []), scope((3,))
    run.execute(Let("t", constant(2.0, F32)), outer, outer)
    run.execute(Store("out", 2 - i0, Local("t", F32)), outer, outer)
    run.execute(Update("total", IndexOf(sympy.Integer(1), I64), Local("t", F32), "sum"), outer, outer)
    run.execute(Accumulate("sum", "sum", Local("t", F32), i0), outer, scope(()))
    run.execute(Carry("before", "sum", Local("t", F32), i0), outer, outer)
    assert memory["out"].tolist() == [2.0] * 3 and memory["total"].tolist() == [0.0, 6.0]
    assert outer.locals["before"].tolist() == [2.0, 4.0, 6.0]


def test_a_row_of_scratch_memory_for_each_outer_iteration():
    """An iteration of the outer loop does not see what another one stored in its scratch row."""
    run = KernelRun({}, {"row": torch.zeros(2, 3)}, [2])
    outer = Scope({}, [i0], [2], run.load)
    inner = outer.nested([r0], [3])
    body = IndexOf(10 * i0 + r0, I64)
    run.scratch["row"] = run.scratch["row"].long()
    run.execute(Store("row", r0, body), inner, outer)
    assert inner.full(Load("row", (2 - r0,), I64)).tolist() == [[2, 1, 0], [12, 11, 10]]
