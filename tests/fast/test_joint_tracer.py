"""A graph and its derivative in one pass: the recorded graph, the origin of operators, and AOTAutograd's part."""

from __future__ import annotations

import pytest
import torch
import torch.fx

from nbcompile.aot.decompositions import default_table
from nbcompile.capture.node_meta import ORIGIN
from nbcompile.fast import joint_tracer
from tests.support.captured import capture, fake_examples


def traced(function, *tensors):
    """The joint graph of a function, traced with fakes of these tensors."""
    captured = capture(function, tensors)
    return joint_tracer.trace(captured.module, fake_examples(captured.inputs), default_table())


def leaf(*size):
    return torch.randn(size, requires_grad=True)


def layer(x, w):
    return (x @ w).relu().sum()


def names(joint, op):
    return [node.name for node in joint.graph.graph.find_nodes(op=op)]


def test_gradients_of_the_outputs_are_inputs_behind_the_others():
    """The joint graph takes the inputs and a tangent for each differentiable output; outputs come before gradients."""
    joint = traced(lambda x, w: (x @ w, x.detach() + 1, (x * w).sin()), leaf(2, 2), leaf(2, 2))
    assert names(joint, "placeholder") == ["primals_1", "primals_2", "tangents_1", "tangents_2"]
    (output,) = joint.graph.graph.find_nodes(op="output")
    assert len(output.args[0]) == 3 + 2


@pytest.mark.parametrize("function", [
    layer, lambda x, w: (torch.softmax(x, 1) * w).sum(), lambda x, w: (x.t() @ w).pow(2).mean(),
], ids=["layer", "softmax", "powers"])  # fmt: skip
def test_the_graph_computes_eagers_results_and_gradients(function):
    """The joint graph itself runs on real tensors."""
    torch.manual_seed(0)
    x, w = leaf(3, 3), leaf(3, 3)
    joint = traced(function, x, w)
    tangent = torch.tensor(2.0)
    with torch.no_grad():
        result, *gradients = joint.graph(x, w, tangent)
    expected = function(x, w)
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(tuple(gradients), torch.autograd.grad(expected, (x, w), tangent))


def test_an_input_without_grad_gets_no_gradient():
    """An input without a differentiable use gets no gradient either; both are None in the output."""
    joint = traced(lambda x, w, z: (x * w, z > 1), leaf(2), torch.randn(2), leaf(2))
    (output,) = joint.graph.graph.find_nodes(op="output")
    assert [value is not None for value in output.args[0]] == [True, True, True, False, False]
    assert list(joint.with_gradient) == [0]


def test_operators_of_the_derivative_come_from_the_captured_node_that_they_differentiate():
    """Autograd numbers its nodes, and each is created while one captured node runs."""
    joint = traced(layer, leaf(2, 2), leaf(2, 2))
    calls = joint.graph.graph.find_nodes(op="call_function", target=torch.ops.aten.mm.default)
    assert [node.meta[ORIGIN] for node in calls] == [("matmul",)] * 3  # the product, and a gradient for each operand
    tangent = next(node for node in joint.graph.graph.nodes if node.name == "tangents_1")
    (expanded,) = tangent.users
    assert expanded.meta[ORIGIN] == ("sum_1",)
    (masked,) = [user for user in expanded.users if user.op == "call_function"]
    assert masked.meta[ORIGIN] == ("relu",)
    inputs = joint.graph.graph.find_nodes(op="placeholder")
    assert [node.meta[ORIGIN] for node in inputs[:2]] == [("x",), ("w",)]


def test_without_a_gradient_there_is_no_joint_graph():
    """Another tracer is used if no input or no output requires grad, or if gradients are off."""
    assert traced(layer, torch.randn(2, 2), torch.randn(2, 2)) is None
    assert traced(lambda x: (x > 0,), leaf(2)) is None
    captured = capture(layer, [leaf(2, 2), leaf(2, 2)])
    with torch.no_grad():
        assert joint_tracer.trace(captured.module, fake_examples(captured.inputs), default_table()) is None


def test_what_a_hook_packs_is_left_to_aotautograd():
    """Hooks on saved tensors belong to the program."""
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        assert traced(layer, leaf(2, 2), leaf(2, 2)) is None


def test_history_of_an_input_is_not_in_the_graph():
    """The derivative ends at the input, whatever its history is."""
    x = leaf(2, 2) * 3
    joint = traced(layer, x, leaf(2, 2))
    assert not any("mul" in str(node.target) for node in joint.graph.graph.nodes)
