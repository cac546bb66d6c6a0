"""The graph of a frame and the backend that the user chose."""

from __future__ import annotations

import pytest
import torch

import nbcompile


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("inlined", [False, True])
def test_a_derivative_between_two_results_of_a_graph(backend, inlined):
    """``autograd.grad`` between two results breaks the graph: one autograd node has no path between its results."""

    def slope(out, point):
        return torch.autograd.grad(out, point, create_graph=True)

    def penalty(w, x):
        point = w * x
        out = (point**3).sum()
        (found,) = slope(out, point) if inlined else torch.autograd.grad(out, point, create_graph=True)
        return ((found.norm() - 1) ** 2) * 2

    w, x = torch.randn(4, requires_grad=True), torch.randn(4)
    expected = penalty(w, x)
    (gradient,) = torch.autograd.grad(expected, w)
    result = nbcompile.compile(penalty, backend=backend)
    torch.testing.assert_close(result(w, x), expected)
    torch.testing.assert_close(torch.autograd.grad(result(w, x), w)[0], gradient)
    record = nbcompile.explain(penalty)(w, x).record
    assert "differentiates one of its results by another" in " ".join(record.frames[0].compiled_graph.notes)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_graph_below_functionalize(backend):
    """A graph under functionalize takes wrappers: it runs operator by operator, in a separate cache entry."""

    def written(x):
        y = x.clone()
        y.add_(1)
        x.mul_(2)
        return y.sin()

    compiled = nbcompile.compile(written, backend=backend)
    for _ in range(4):
        for call in (compiled, torch.func.functionalize(compiled)):
            given, expected = torch.ones(3), torch.ones(3)
            assert torch.equal(call(given), written(expected))
            assert torch.equal(given, expected)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("plain_first", [False, True])
def test_a_graph_without_arguments_below_functionalize(backend, plain_first):
    """Compiled code would return plain tensors, which the transform cannot use, so the graph runs through ATen."""

    def made():
        y = torch.ones(3)
        y.add_(1)
        return y.sin()

    compiled = nbcompile.compile(made, backend=backend)
    for index in range(6):
        if plain_first == (index < 3):
            assert torch.equal(compiled(), made())
        else:
            found = torch.func.functionalize(lambda x: compiled().mul_(x))(torch.ones(3))
            assert torch.equal(found, made())
