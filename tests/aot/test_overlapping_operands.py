"""Operators that read what they write give eager's result, whatever functionalisation makes of them.

Read next: tests/aot/test_self_overlapping_writes.py
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import nbcompile
from nbcompile.aot import overlapping_operands


def weight_is_variance(x: torch.Tensor, a: torch.Tensor) -> object:
    mean, variance = a[0].clone(), a[1].abs()
    return F.batch_norm(x, mean, variance, variance, mean, training=True), mean, variance


def weight_is_a_view(x: torch.Tensor, a: torch.Tensor) -> object:
    return F.batch_norm(x, a[0], a[1], a[1].view(3), a[0], training=True), a


def weight_is_a_part(x: torch.Tensor, a: torch.Tensor) -> object:
    flat = a.view(-1)
    return F.batch_norm(x, flat[:3], flat[3:6], flat[1:4], training=True), a


def native(x: torch.Tensor, a: torch.Tensor) -> object:
    return *torch._native_batch_norm_legit(x, a[1], a[0], a[0], a[1], True, 0.1, 1e-5), a


def statistics_of_instances(x: torch.Tensor, a: torch.Tensor) -> object:
    return F.instance_norm(x[:, :, None].expand(4, 3, 2) * 1.5, a[0], a[1], a[1], a[0], use_input_stats=True), a


def product(x: torch.Tensor, a: torch.Tensor) -> object:
    return a.addmm_(a, a)


def product_in_out(x: torch.Tensor, a: torch.Tensor) -> object:
    return torch.mm(a, a, out=a)


def column(x: torch.Tensor, a: torch.Tensor) -> object:
    return a.sub_(a[:, :1])


def transposed(x: torch.Tensor, a: torch.Tensor) -> object:
    return a.add_(a.t())


def twice_in_a_list(x: torch.Tensor, a: torch.Tensor) -> object:
    torch._foreach_add_([a, a], [a, a])
    return a


def rows_down(x: torch.Tensor, a: torch.Tensor) -> object:
    a[1:] = a[:-1]
    return a


def columns_right(x: torch.Tensor, a: torch.Tensor) -> object:
    a[:, 1:] = a[:, :-1]
    return a


def assigned_transposed(x: torch.Tensor, a: torch.Tensor) -> object:
    a[:] = a.t()
    return a


def numbers_moved(x: torch.Tensor, a: torch.Tensor) -> object:
    a.view(-1)[2:8] = a.view(-1)[1:7]
    return a


def rows_by_index(x: torch.Tensor, a: torch.Tensor) -> object:
    a[torch.tensor([1, 2, 0])] = a
    return a


def index_is_target(x: torch.Tensor, a: torch.Tensor) -> object:
    places = torch.tensor([2, 0, 1])
    places[places] = places + 1
    return places


READING = [
    rows_down, columns_right, assigned_transposed, numbers_moved, rows_by_index, index_is_target,
    weight_is_variance, weight_is_a_view, weight_is_a_part, native, statistics_of_instances, product, product_in_out,
    column, transposed, twice_in_a_list,
]  # fmt: skip


def itself(x: torch.Tensor, a: torch.Tensor) -> object:
    return a.mul_(a).copy_(a)


def rows(x: torch.Tensor, a: torch.Tensor) -> object:
    a[0].addcmul_(a[1], a[2])
    return torch.add(a[0], a[1], out=a[0])


def columns(x: torch.Tensor, a: torch.Tensor) -> object:
    a[:, 0].mul_(a[:, 1])
    a[:, :1].sub_(a[:, 1:2])
    a += a
    return a


def halves(x: torch.Tensor, a: torch.Tensor) -> object:
    a.view(-1)[::2][:4].add_(a.view(-1)[1::2])
    return F.batch_norm(x, a[0], a[1], a[2], training=True), a


def assigned_apart(x: torch.Tensor, a: torch.Tensor) -> object:
    a[:, 0] = a[:, 1]
    a[0], a[1] = a[1], a[2]
    a[:] = a
    a[None, 1, ...] = a[0:1]
    a.view(-1)[:6:2] = a.view(-1)[1:7:2]
    a[a > 1] = a[2, 2].clone()
    a[torch.tensor([0, 1])] = a[:2] * 2
    return a


APART = [assigned_apart, itself, rows, columns, halves]


def outcome(function, seed=0):
    torch.manual_seed(seed)
    arguments = torch.randn(4, 3), torch.rand(3, 3) + 0.5
    try:
        results = function(*arguments)
    except RuntimeError as error:
        return [str(error)]
    return [*(results if isinstance(results, tuple) else [results]), *arguments]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("function", READING + APART, ids=lambda function: function.__name__)
def test_results_are_those_of_eager(function, dynamic):
    """Values, mutated tensors, and the error about memory that is both read and written equal eager's."""
    nbcompile.reset()
    wanted, found = outcome(function), outcome(nbcompile.compile(function, dynamic=dynamic))
    for one, other in zip(wanted, found, strict=True):
        assert one == other if isinstance(one, str) else torch.allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("function", READING + APART, ids=lambda function: function.__name__)
def test_only_graphs_that_read_what_they_write_run_as_captured(function):
    """Disjoint parts of one tensor are compiled; parts that overlap run as captured."""
    seen = []

    def backend(graph_module, examples):
        seen.append(overlapping_operands.reads_what_it_writes(graph_module))
        return graph_module.forward

    nbcompile.reset()
    outcome(nbcompile.compile(function, backend=backend))
    assert seen == [function in READING]


def assigned_by_number(y, i, j):
    y[i : i + 3] = y[j : j + 3]
    return y * 1


def subtracted_by_number(y, i, j):
    y[i : i + 3].sub_(y[j : j + 3])
    return y * 1


def columns_by_number(y, i, j):
    y = y.view(4, 5)
    y[:, :i].add_(y[:, j:])
    return y * 1


def outcomes(function, calls):
    for numbers in calls:
        y = torch.arange(20.0)
        try:
            yield function(y, *numbers).tolist(), y.tolist()
        except RuntimeError as error:
            yield str(error)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("turn", [1, -1])
def test_parts_whose_place_is_an_argument(backend, turn):
    """Parts that are disjoint, overlapping or equal, in any order of calls, give eager's result or eager's error."""
    places = [(2, 10), (4, 5), (5, 4), (3, 3), (7, 10), (12, 2), (6, 9)][::turn]
    columns = [(2, 3), (1, 4), (3, 2), (4, 1), (2, 3)][::turn]
    for function in (assigned_by_number, subtracted_by_number):
        for first in range(0, len(places), 2):
            calls = places[first:] + places[:first]
            compiled = nbcompile.compile(function, backend=backend, dynamic=True)
            assert list(outcomes(compiled, calls)) == list(outcomes(function, calls))
            nbcompile.reset()
    compiled = nbcompile.compile(columns_by_number, backend=backend, dynamic=True)
    assert list(outcomes(compiled, columns)) == list(outcomes(columns_by_number, columns))


def test_parts_of_rows_are_compiled_with_sizes_that_are_symbols():
    """Disjoint columns with symbolic sizes have a guard that they stay disjoint; a shift by one always overlaps."""
    seen = []

    def backend(graph_module, examples):
        seen.append(overlapping_operands.reads_what_it_writes(graph_module))
        return graph_module.forward

    def halves(y):
        half = y.shape[1] // 2
        y[:, :half].sub_(y[:, half : 2 * half])
        return y * 1

    nbcompile.compile(halves, backend=backend, dynamic=True)(torch.ones(3, 8))
    with pytest.raises(RuntimeError, match="single memory location"):
        nbcompile.compile(rows_down, backend=backend, dynamic=True)(torch.ones(3), torch.ones(5, 3))
    nbcompile.compile(assigned_by_number, backend=backend, dynamic=True)(torch.ones(20), 2, 10)
    assert seen == [False, True, False]
