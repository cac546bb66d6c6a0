"""An ATen graph operator by operator."""

from __future__ import annotations

import pytest
import torch

from nbcompile.backends.run_aten import attribute_of, run_through_aten


def graph_of(function, *nodes):
    """A graph module with one call for each function."""
    graph = torch.fx.Graph()
    value = graph.placeholder("x")
    graph.output((graph.call_function(function, (value, *nodes)),))
    return torch.fx.GraphModule({}, graph)


def test_it_takes_a_list_and_empties_it():
    """The runner takes a list and empties it: an input is freed after its last use in the graph."""
    arguments = [torch.ones(3)]
    run = run_through_aten(graph_of(torch.ops.aten.neg.default), (), "inference")
    assert run(arguments)[0].tolist() == [-1, -1, -1]
    assert arguments == [] and run._boxed_call


@pytest.mark.parametrize(("stage", "requires_grad"), [("inference", False), ("forward", True)])
def test_an_inference_graph_records_no_derivative(stage, requires_grad):
    """An inference graph records no derivative though its input requires grad; the caller's grad mode is unchanged."""
    run = run_through_aten(graph_of(torch.ops.aten.neg.default), (), stage)
    (result,) = run([torch.ones(3, requires_grad=True)])
    assert result.requires_grad == requires_grad
    assert torch.is_grad_enabled()


def test_grad_mode_is_restored_when_an_operator_raises():
    """The operator's own error propagates, and the grad mode is restored."""
    run = run_through_aten(graph_of(torch.ops.aten.select.int, 0, 7), (), "inference")
    with pytest.raises(IndexError):
        run([torch.ones(3)])
    assert torch.is_grad_enabled()


def test_a_constant_is_found_by_its_path():
    """A constant is found by its path, in a submodule, too."""
    module = torch.nn.Module()
    module.inner = torch.nn.Linear(2, 2)
    assert attribute_of(module, "inner.weight") is module.inner.weight
