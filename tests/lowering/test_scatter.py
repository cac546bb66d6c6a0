"""Scatters: program, schedule and C++ give eager's values."""

from __future__ import annotations

import warnings

import pytest
import torch

import nbcompile
from nbcompile.errors import GeneratedCodeWarning
from nbcompile.ir.printer import print_schedule
from tests.support.lowered import check, programs

torch.manual_seed(0)
x, ids = torch.randn(8, 6), torch.tensor([3, 0, 3, 7, -1])
rows, square = torch.randn(5, 6), torch.randint(0, 8, (4, 5))
source, n = torch.randn(5, 7), torch.randint(-5, 9, (8, 6))
words, g = torch.tensor([[0, 2, 2], [4, 1, 2]]), torch.randn(2, 3, 6)
aten = torch.ops.aten

CASES = {
    "index_put": (lambda x, i, v: [x.index_put([i], v), x.index_put([i], v[0]), x.index_put([i], v, True)], (x, ids, rows)),
    "two indices": (lambda x, i, j: [x.index_put([i, j], x[0, :5], True), x.index_put([i, j], x[0, 0])], (x, ids, ids.abs() % 6)),
    "not in front": (lambda x, i, v: aten.index_put(x, [None, i], v), (x, torch.tensor([5, 0, -2]), torch.randn(8, 3))),
    "around": (
        lambda b, i, v: aten.index_put(b, [i, None, i], v, True),
        (torch.randn(3, 4, 3), torch.tensor([0, 1, 1]), torch.randn(3, 4)),
    ),
    "mask": (lambda x, m: [x.index_put([m], x[0, 0]), x.index_put([m], x[0, :1], True)], (x, x > 0)),
    "mask of rows": (lambda x, m: x.index_put([m], torch.tensor(2.0)), (x, x[:, 0] > 0)),
    "integers": (lambda n, i: [n.index_put([i], n[0], True), n.scatter_add(0, i[:, None] % 8, n)], (n, ids)),
    "bool": (lambda b, i: b.index_put([i], b[:5] | True, True), (x > 0, ids)),
    "half": (lambda h, i: [h.index_put([i], h[:5], True), h.index_put([i], h[:5])], (x.bfloat16(), ids)),
    "scatter": (
        lambda x, s, v: [x.scatter(0, s, v), x.scatter(0, s, 2.5), x.scatter(1, s % 6, v), x.scatter_add(-1, s % 6, v)],
        (x, square, source),
    ),
    "scatter reduce": (
        lambda x, s, v: [x.scatter_reduce(0, s, v, r, include_self=c) for r in ("sum", "prod", "amax", "amin") for c in (True, False)],
        (x, square, source),
    ),
    "old reduce": (lambda x, s, v: [x.scatter(0, s, v, reduce="add"), x.scatter(0, s, 2.0, reduce="multiply")], (x, square, source)),
    "whole slices": (
        lambda x, i, v: [x.index_add(0, i % 8, v, alpha=2), x.index_copy(0, i % 8, v), x.index_add(1, i % 5, v.t().new_ones(8, 5))],
        (x, ids, rows),
    ),
    "embedding": (
        lambda g, w: [aten.embedding_dense_backward(g, w, 5, p, False) for p in (-1, 2)],
        (g, words),
    ),
    "scalar row": (lambda v, i: v.index_put([i], v[:5], True), (x[:, 0].clone(), ids)),
    "computed on the way": (lambda x, i, v: (x + 1).index_put([i + 0], v.exp() * 2, True).sum(1), (x, ids, rows)),
    "one after the other": (lambda x, i, v: x.index_put([i], v).index_put([i - 1], v, True) * x, (x, ids % 8, rows)),
    "no index": (lambda x, i, v: x.index_put([i], v), (x, ids[:0], rows[:0])),
    "one row": (lambda x, i, v: x.index_put([i], v, True), (x[:1], torch.tensor([0, 0]), rows[:2])),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_program_and_schedule(name):
    """Each scatter operator is lowered, and gives eager's values."""
    function, inputs = CASES[name]
    check(function, *inputs, allow_extern=False)


@pytest.mark.parametrize(
    "name", ["index_put", "around", "integers", "bool", "half", "scatter reduce", "embedding", "one row"]
)
def test_generated_code(name):
    """The C++ of a scatter gives eager's values."""
    function, inputs = CASES[name]
    found = nbcompile.compile(function, fullgraph=True)(*inputs)
    for mine, theirs in zip(found, function(*inputs), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_symbolic_sizes():
    """Rows, columns and indices may have symbolic sizes."""
    check(lambda x, i, v: x.index_put([i], v, True), x, ids, rows, dynamic=True)


def test_loops_over_disjoint_elements_are_outside():
    """Columns are independent, and are parallel outer loops; rows may collide, and run in order."""
    _, plan = programs(lambda x, i, v: x.index_put([i], v, True), x, ids, rows)
    assert "parallel for i1 < 6:\n        for i0 < 5:" in print_schedule(plan)


def test_an_index_out_of_range_is_an_error():
    """An index out of bounds is an IndexError, as in eager mode, and no other memory is written."""
    compiled = nbcompile.compile(lambda x, i, v: x.index_put([i], v))
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        compiled(x, torch.tensor([0, 9, 1, 2, 3]), rows)


def test_pooling_gradient():
    """The gradient of max pooling adds the gradients of overlapping windows."""
    picture = torch.randn(2, 3, 9, 8)
    given = torch.randn_like(torch.nn.functional.max_pool2d(picture, 3, 2, 1))

    def gradient(picture, given):
        _, places = aten.max_pool2d_with_indices(picture, [3, 3], [2, 2], [1, 1])
        return aten.max_pool2d_with_indices_backward(given, picture, [3, 3], [2, 2], [1, 1], [1, 1], False, places)

    check(gradient, picture, given, allow_extern=True)


@pytest.mark.parametrize("reduce", ["add", "multiply"])
@pytest.mark.parametrize("source", [torch.tensor([True, False, True]), True], ids=["tensor", "number"])
def test_bools_are_added_by_aten(reduce, source):
    """A sum of bools saturates, and no kernel supports it: it runs through ATen without a warning."""
    x, ids = torch.tensor([False, True, False]), torch.tensor([0, 0, 1])

    def function(x, ids):
        return ~x.scatter(0, ids, source, reduce=reduce)

    with warnings.catch_warnings():
        warnings.simplefilter("error", GeneratedCodeWarning)
        assert torch.equal(nbcompile.compile(function)(x, ids), function(x, ids))
