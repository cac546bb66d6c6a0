"""ATen graphs of a tracer, and the runtime metadata of a joint graph."""

import torch
import torch.fx

from nbcompile.aot.traced_graphs import JointGraph, requires_grad


def joint(outputs, saved, example_inputs, with_gradient=(0, 1)):
    """Runtime metadata of a joint graph with two inputs, some saved nodes, and one donated node."""
    graph = torch.fx.Graph()
    a, b = (graph.placeholder(name) for name in "ab")
    product = graph.call_function(torch.ops.aten.mul.Tensor, (a, b))
    inner = graph.call_function(torch.ops.aten.sin.default, (product,))
    for node, value in zip((a, b, product, inner), (*example_inputs, outputs[0], torch.empty(2)), strict=True):
        node.meta["val"] = value
    graph.output(([product] * len(outputs)) + [a, None])
    whole = JointGraph(torch.fx.GraphModule({}, graph), outputs, with_gradient)
    return whole.runtime_metadata(len(saved), 1, example_inputs, saves_intermediates=True)


def leaves():
    return [torch.ones(2, requires_grad=True), torch.ones(2)]


def test_results_then_saved_tensors_then_saved_sizes():
    """The forward graph returns results, saved tensors and saved sizes, in this order; each part is a slice."""
    inputs = leaves()
    found = joint([inputs[0] * inputs[1], torch.ones(2)], ["a", "inner"], inputs).training
    assert found.forward_returns == 2
    assert found.saved_checked == slice(2, 4)
    assert found.saved_numbers == slice(4, 5)
    assert found.saves_intermediates


def test_results_without_history_are_not_differentiable():
    """Only the result that requires grad has a tangent, with the layout of the result."""
    inputs = leaves()
    found = joint([inputs[0] * inputs[1], torch.ones(2)], [], inputs).training
    assert (found.differentiable_outputs, found.non_differentiable_outputs) == ([0], [1])
    assert [(layout.size, layout.stride) for layout in found.tangent_layouts] == [((2,), (1,))]


def test_an_input_with_history_and_without_a_gradient_is_detached():
    """An input with a history and without a gradient is detached; a leaf, and an input with a gradient, are not."""
    inputs = [torch.ones(2, requires_grad=True) * 1, torch.ones(2, requires_grad=True)]
    outputs = [inputs[0] * inputs[1]]
    assert joint(outputs, [], inputs, with_gradient=[1]).training.detached_inputs == [0]
    assert joint(outputs, [], inputs, with_gradient=[0, 1]).training.detached_inputs == []


def test_only_tensors_require_grad():
    """A number does not require grad, nor does a tensor that is not marked."""
    assert [requires_grad(value) for value in (*leaves(), 3.0, None)] == [True, False, False, False]
