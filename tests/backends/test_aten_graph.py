"""One ATen graph: generated code and its record, verification, and the fallback to ATen."""

from __future__ import annotations

import pytest
import torch

from nbcompile import backends, errors
from nbcompile.backends import aten_graph
from nbcompile.runtime import toolchain
from tests.support.captured import capture, compiled, recorded_graph


def test_verification_accepts_what_is_right():
    """Verification accepts correct results, forward and backward, random numbers included."""
    x = torch.randn(4, 4, requires_grad=True)
    captured = capture(lambda a: (torch.nn.functional.dropout(a, 0.5) + torch.rand_like(a),), (x,))
    run = backends.lookup("inductor", options={"verify": True})(captured.module, captured.inputs)
    torch.manual_seed(3)
    (result,) = run(x)
    result.sum().backward()
    torch.manual_seed(3)
    torch.testing.assert_close(result, captured.module(x)[0])


@pytest.mark.parametrize(
    "wrong",
    [lambda a: [a[0] + 1e-2], lambda a: [a[0].t()], lambda a: [a[0].double()], lambda a: []],
    ids=["value", "stride", "dtype", "number"],
)
def test_verification_rejects_what_is_wrong(wrong):
    """Verification rejects a wrong value, stride, dtype or number of results."""
    run = backends.verified(wrong, lambda arguments: [arguments[0]], "forward")
    with pytest.raises(errors.VerificationFailed, match="compiled forward graph differs"):
        run([torch.ones(2, 3) + torch.arange(3.0)])


def test_the_record_of_generated_code():
    """The record has buffers, kernels and the wrapper, linked by ids to the nodes of the ATen graph."""
    x = torch.randn(8, 4)
    record = recorded_graph(capture(lambda a, w: (torch.relu(a @ w) + 1,), (x, torch.randn(4, 4))), "inductor")
    assert record.notes == ()
    (graph,) = record.graphs
    ids = {node.name: node.id for node in graph.nodes}
    generated = [kernel for kernel in record.kernels if kernel.language == "cpp"]
    assert [kernel.id for kernel in generated] == ["0/0.inference.kernel0"]
    assert set(generated[0].from_nodes) == {ids["relu"], ids["add"]}
    assert [kernel.name for kernel in record.kernels if kernel.language == "aten"] == ["aten.mm.default"]
    assert {node for buffer in record.buffers for node in buffer.from_nodes} <= set(ids.values())
    assert {buffer for kernel in generated for buffer in kernel.buffers} <= {each.id for each in record.buffers}
    assert record.wrapper.startswith("def call(args):")


def test_a_frame_with_two_graphs_keeps_their_kernels_apart():
    x = torch.randn(3, 4, requires_grad=True)
    record = recorded_graph(capture(lambda a: ((a.sin() * 2).sum(),), (x,)), "inductor")
    names = [kernel.name for kernel in record.kernels]
    assert {"forward.kernel0", "backward.kernel0"} <= set(names)
    assert len({kernel.id for kernel in record.kernels}) == len(record.kernels)
    assert "# forward\n" in record.wrapper
    assert "# backward\n" in record.wrapper


def test_without_a_compiler_the_graph_runs_through_aten(monkeypatch):
    """Without a C++ compiler the graph runs through ATen without a warning, and the record has the reason."""
    monkeypatch.setattr(toolchain, "find", lambda: toolchain.NoCompiler("no C++ compiler: tried g++"))
    captured = capture(lambda a: (a.sin(),), (torch.randn(4),))
    record = recorded_graph(captured, "inductor")
    assert record.notes == ("no C++ compiler: tried g++: the graph runs through ATen",)
    assert record.kernels == ()
    x = torch.randn(4)
    torch.testing.assert_close(compiled(captured, "inductor")(x)[0], x.sin())


def test_an_internal_error_is_reported_and_the_program_continues(monkeypatch):
    def broken(program, **options):
        raise KeyError("a bug")

    monkeypatch.setattr(aten_graph, "schedule", broken)
    captured = capture(lambda a: (a.sin(),), (torch.randn(4),))
    x = torch.randn(4)
    with pytest.warns(errors.GeneratedCodeWarning, match="code generation failed .KeyError: 'a bug'"):
        run = compiled(captured, "inductor")
    torch.testing.assert_close(run(x)[0], x.sin())
    with pytest.warns(errors.GeneratedCodeWarning):
        (text,) = recorded_graph(captured, "inductor").notes
    assert "runs through ATen" in text


def test_results_that_share_memory_in_eager_share_it():
    """Two overlapping results of one intermediate alias as in eager mode: a write to one is visible in the other."""

    def rows(a):
        y = a * 2
        return y[0], y.view(-1)[2:6], y.t()

    captured = capture(rows, (torch.randn(3, 4),))
    assert recorded_graph(captured, "inductor").notes == ()
    first, middle, turned = compiled(captured, "inductor")(torch.ones(3, 4))
    first[2:] = 7.0
    assert middle.tolist() == [7.0, 7.0, 2.0, 2.0]
    assert turned[:, 0].tolist() == [2.0, 2.0, 7.0, 7.0]
    assert turned.stride() == (1, 4)
