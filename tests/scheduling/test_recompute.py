"""Recomputation: a cheap value is computed in each kernel that reads it, if that loads little."""

from __future__ import annotations

import pytest
import torch

import nbcompile


def kernels(function, *inputs):
    """The results of a program, and the buffers that are allocated for it, one line each."""
    frame_recorder = nbcompile.api.new_recorder("recompute")
    with torch.no_grad(), frame_recorder.listening():
        result = nbcompile.compile(function)(*inputs)
    graphs = [frame.compiled_graph for frame in frame_recorder.record().frames if frame.compiled_graph is not None]
    nbcompile.reset()
    return result, [line for graph in graphs for line in graph.wrapper.splitlines() if "empty_strided" in line]


def both_ways(x, y, w):
    common = (x * w * 2.0 + y).relu()
    return (common * x).sum(0), torch.softmax(common * x, -1)


def test_a_common_part_is_not_stored():
    """A value that a column sum and a row softmax share is not stored: only the two results are allocated."""
    inputs = torch.randn(96, 160), torch.randn(96, 160), torch.randn(160)
    result, allocated = kernels(both_ways, *inputs)
    torch.testing.assert_close(result, both_ways(*inputs), rtol=1e-4, atol=1e-5)
    assert len(allocated) == 2


def test_each_kernel_names_the_nodes_that_it_recomputes():
    """A recomputed node is an origin of each kernel that computes it."""
    with torch.no_grad():
        record = nbcompile.explain(both_ways)(torch.randn(96, 160), torch.randn(96, 160), torch.randn(160)).record
    first, second = (set(each.from_nodes) for each in record.frames[0].compiled_graph.kernels)
    assert len(first & second) == 4, "two products, a sum and a relu"


STORED = {
    "expensive": lambda x, y: ((c := torch.tanh(torch.exp(x) + torch.sin(y))).sum(0), torch.softmax(c, -1)),
    "returned": lambda x, y: (c := x * 2 + y, (c * x).sum(0), torch.softmax(c, -1)),
    "more to read": lambda x, y: ((c := x * 2 + y.t() * (x + 1).t().sum()).sum(0), torch.softmax(c.t(), -1)),
    "multiplied": lambda x, y: ((c := x * 2 + y).sum(0), c @ c.t(), torch.softmax(c, -1)),
}


@pytest.mark.parametrize("name", STORED)
def test_what_is_expensive_or_stored_anyway(name):
    """Results equal eager's, whether a value is stored or recomputed."""
    function = STORED[name]
    torch.manual_seed(0)
    x, y = torch.randn(80, 80), torch.randn(80, 80)
    result, _ = kernels(function, x, y)
    # Terms are as large as 20,000, and the sum of a column may be as small as 10.
    torch.testing.assert_close(result, function(x, y), rtol=1e-4, atol=1e-1 if name == "more to read" else 1e-4)


def test_an_expensive_value_is_stored():
    """An expensive value is stored, because a load costs less than its three functions."""
    _, allocated = kernels(STORED["expensive"], torch.randn(80, 80), torch.randn(80, 80))
    assert len(allocated) == 3


def test_what_changes_meanwhile_is_read_before():
    """A value of a mutated input is computed from the old value in all kernels."""

    def function(x, y):
        common = x * 2 + y
        first = (common * y).sum(0)
        x.add_(1)
        return first, torch.softmax(common, -1)

    x, y = torch.randn(70, 90), torch.randn(70, 90)
    expected_x, given = x.clone(), x.clone()
    expected = function(expected_x, y)
    result, _ = kernels(function, given, y)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(given, expected_x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_gradients_of_norms(dtype):
    """The gradients of a norm, a column sum and a row sum, share one product."""

    def rms(x, w):
        return (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w).square().mean()

    x, w = torch.randn(130, 70).to(dtype).requires_grad_(), torch.randn(70).to(dtype).requires_grad_()
    found = torch.autograd.grad(nbcompile.compile(rms)(x, w), [x, w])
    double = [each.detach().double().requires_grad_() for each in (x, w)]
    expected = torch.autograd.grad(rms(*double), double)
    nbcompile.reset()
    loose = {"rtol": 2e-2, "atol": 1e-3} if dtype == torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-6}
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), other, **loose)
