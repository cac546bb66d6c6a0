"""Compilation in the background: a graph runs as captured until its code exists."""

from __future__ import annotations

import threading
import warnings

import pytest
import torch

import nbcompile
from nbcompile import api, backends, config, errors
from nbcompile.backends import registry
from nbcompile.fast import background


@pytest.fixture(autouse=True)
def in_the_background():
    nbcompile.reset()
    with config.patch(background=True):
        yield
    assert background.wait(120)


@pytest.fixture
def held(monkeypatch):
    """An event for which the compilation waits."""
    event, compile_one = threading.Event(), backends.inductor

    def slowly(graph, inputs, **keywords):
        assert event.wait(60)
        return compile_one(graph, inputs, **keywords)

    monkeypatch.setitem(registry._registered, "inductor", slowly)
    yield event
    event.set()


@pytest.mark.compiles
def test_calls_go_on_meanwhile(held):
    """Each side effect happens once, and gradients are right; later, the compiled code gives the same results."""
    seen = []

    def f(x):
        seen.append(len(seen))
        return torch.tanh(x * 2).sum(-1)

    compiled, x = nbcompile.compile(f), torch.randn(3, 4, requires_grad=True)
    frame_recorder = api.new_recorder("f")
    with frame_recorder.listening():
        first = compiled(x)
    assert background.jobs()[-1].state in ("waiting", "compiling")
    (gradient,) = torch.autograd.grad(first.sum(), x)
    assert not frame_recorder.record().frames[0].compiled_graph.kernels
    held.set()
    assert background.wait(60)
    assert background.jobs()[-1].state == "ready"
    assert frame_recorder.record().frames[0].compiled_graph.kernels
    second = compiled(x)
    (again,) = torch.autograd.grad(second.sum(), x)
    torch.testing.assert_close((first, gradient), (second, again))
    assert seen == [0, 1]


def test_inputs_may_change_meanwhile(held):
    """The graph of the first call is compiled, whatever happens to its tensors."""

    def f(x, y):
        return (x * y).sum()

    compiled, x, y = nbcompile.compile(f), torch.ones(4), torch.full((4,), 2.0)
    assert compiled(x, y) == 8
    x.resize_(9)
    held.set()
    assert background.wait(60)
    assert compiled(torch.ones(4), y) == 8


def test_a_compiler_that_fails_is_told_once(monkeypatch):
    """The graph still runs as captured."""

    def broken(graph, inputs, **keywords):
        raise ValueError("no luck")

    monkeypatch.setitem(registry._registered, "inductor", broken)
    compiled = nbcompile.compile(lambda x: x + 1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        compiled(torch.ones(3))
        assert background.wait(60)
        assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 2.0))
    assert [each.category for each in told] == [errors.GeneratedCodeWarning]
    assert background.jobs()[-1].state == "failed"


def test_symbolic_sizes_are_compiled_at_once(held):
    """Such a graph is not compiled in the background, because the compilation adds guards on sizes."""
    held.set()
    before = len(background.jobs())
    nbcompile.compile(lambda x: x + 1, dynamic=True)(torch.ones(3))
    assert len(background.jobs()) == before
