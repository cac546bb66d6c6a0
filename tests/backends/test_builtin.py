"""The built-in backends: their results, and their entries in the record."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from nbcompile import backends, errors
from nbcompile.recording import graph_record
from tests.support.captured import capture, compiled, recorded_graph


def test_a_mode_or_an_option_that_does_not_exist_is_an_error_at_once():
    with pytest.raises(errors.InvalidMode, match="'fastest'.*max-autotune"):
        nbcompile.compile(torch.sin, mode="fastest")
    with pytest.raises(errors.InvalidBackendOption, match="Did you mean 'verify'"):
        nbcompile.compile(torch.sin, options={"verfy": True})


@pytest.fixture
def square():
    return capture(lambda a: (a * a,), (torch.ones(3),))


# --- our own backend -------------------------------------------------------------------------------------------------


def test_the_callable_under_real_torch_compile():
    """``torch.compile(f, backend="nbcompile")`` calls this function with fake or real examples."""
    captured = capture(lambda a: (a.sin() + 1,), (torch.randn(4),))
    run = backends.nbcompile(captured.module, captured.inputs)
    x = torch.randn(4)
    torch.testing.assert_close(run(x)[0], x.sin() + 1)


def dropped(x, w):
    """A function with a derivative, a reduction and random numbers."""
    return torch.nn.functional.dropout((x @ w).relu(), 0.5, True).sum(1)


def gradients_of(compiled):
    """The result and the gradients, with a fixed seed."""
    x, w = torch.arange(12.0).view(3, 4).requires_grad_(), torch.eye(4).requires_grad_()
    torch.manual_seed(0)
    result = compiled(x, w)
    return [result, *torch.autograd.grad(result.sum(), (x, w))]


def test_real_torch_compile_finds_ours_by_name():
    """torch.compile finds our backend through the entry point, with gradients, and with options."""
    expected = gradients_of(dropped)
    found = gradients_of(torch.compile(dropped, backend="nbcompile", fullgraph=True))
    torch.testing.assert_close(found, expected)
    own = torch.compile(dropped, backend="nbcompile", options={"fallback_random": False})
    result, dx, dw = gradients_of(own)
    assert result.isfinite().all()
    assert (dx.shape, dw.shape) == ((3, 4), (4, 4))


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_torchs_own_backends_under_our_front_end(backend):
    """A backend of torch.compile takes the graph that our front end captures."""
    theirs = torch._dynamo.lookup_backend(backend)

    def logistic(x, w):
        return (x @ w).sigmoid().sum(1)

    found = gradients_of(nbcompile.compile(logistic, backend=theirs, fullgraph=True))
    torch.testing.assert_close(found, gradients_of(logistic))


# --- the record -------------------------------------------------------------------------------------------------------


def test_the_record_of_inference():
    """Inference has one ATen graph; every node has the captured node and the user's line as origin."""
    with torch.no_grad():
        told_graph = recorded_graph(
            capture(lambda a, w: (torch.relu(a @ w),), (torch.ones(2, 2), torch.ones(2, 2))), "aot_eager"
        )
    assert told_graph.backend == "aot_eager"
    (graph,) = told_graph.graphs
    assert (graph.id, graph.stage) == ("0/0.inference", "inference")
    assert [node.target for node in graph.nodes[2:-1]] == ["aten.mm.default", "aten.relu.default"]
    assert [node.from_nodes for node in graph.nodes[:-1]] == [("0/0.n0",), ("0/0.n1",), ("0/0.n2",), ("0/0.n3",)]
    assert [node.stack[0].line for node in graph.nodes[2:-1]] == [2, 3]
    assert "# File: user.py:2 in f, code: matmul" in graph.code


@pytest.mark.parametrize("backend", ["aot_eager", "aot_eager_decomp_partition", "inductor"])
def test_the_record_of_training(backend):
    """Training has a joint, a forward and a backward graph; a derivative has the origin of its operator."""
    x = torch.randn(3, 4, requires_grad=True)
    graphs = {
        each.stage: each for each in recorded_graph(capture(lambda a: ((a.sin() * 2).sum(),), (x,)), backend).graphs
    }
    assert list(graphs) == ["joint", "forward", "backward"]
    (cosine,) = [node for node in graphs["backward"].nodes if node.target == "aten.cos.default"]
    assert cosine.id.startswith("0/0.backward.n")
    assert cosine.from_nodes == ("0/0.n1",)
    assert cosine.stack[0].code == "sin"
    for graph in graphs.values():
        named = {node.id for node in graph.nodes}
        assert all(source in named for node in graph.nodes for source in node.inputs)


def test_two_records_of_one_compile_are_equal():
    def once():
        return recorded_graph(capture(lambda a: (a.softmax(-1),), (torch.randn(3, 4, requires_grad=True),)), "inductor")

    assert once() == once()


def test_nothing_is_recorded_without_a_listener(monkeypatch, square):
    monkeypatch.setattr(graph_record.entries, "graph", lambda *arguments, **keywords: pytest.fail("built a record"))
    compiled(square, "aot_eager")


@pytest.mark.parametrize("backend", ["eager_noexcept", "eager_debug", "aot_eager_default_partitioner", "cudagraphs"])
def test_names_of_torch_are_backends(backend):
    """Backends with torch's names compute eager's result and derivative."""
    x = torch.ones(3, requires_grad=True)
    result = nbcompile.compile(lambda x: (x * x).sin(), backend=backend)(x)
    result.sum().backward()
    expected = torch.ones(3, requires_grad=True)
    (expected * expected).sin().sum().backward()
    assert torch.equal(result, (expected * expected).sin()) and torch.equal(x.grad, expected.grad)


def test_eager_noexcept_reports_a_graph_that_raises():
    """If the graph raises, eager_noexcept raises an error with the graph's error as cause, after a side effect, too."""
    seen = []

    def program(x):
        seen.append(1)
        torch._assert_async(x.sum() > 5, "too small")
        return x + 1

    with pytest.raises(errors.GraphRaised, match="Unexpected exception") as raised:
        nbcompile.compile(program, backend="eager_noexcept")(torch.ones(2))
    assert isinstance(raised.value.__cause__, RuntimeError)
