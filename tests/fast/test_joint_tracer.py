"""A graph and its derivative in one pass: the recorded graph, the origin of operators, and AOTAutograd's part."""

from __future__ import annotations

import pytest
import torch
import torch.fx

import nbcompile
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


IN_PLACE = {
    "clamp_min_": lambda y, w: y.clamp_min_(0.1),
    "clamp_": lambda y, w: y.clamp_(-0.5, 0.5),
    "abs_": lambda y, w: y.abs_().add_(0.5),
    "square_": lambda y, w: y.square_().add_(0.5),
    "mul_": lambda y, w: y.mul_(w).abs_().add_(1),
    "div_": lambda y, w: y.div_(w.abs() + 1).square_().add_(1),
    "hardtanh_": lambda y, w: torch.nn.functional.hardtanh_(y).add_(2),
    "threshold_": lambda y, w: torch.nn.functional.threshold_(y, 0.1, 0.5).mul_(2),
    "sin_": lambda y, w: y.sin_().add_(2),
    "pow_": lambda y, w: y.pow_(3).abs_().add_(1),
}
FINISH = {
    "sqrt_": torch.Tensor.sqrt_, "exp_": torch.Tensor.exp_, "sigmoid_": torch.Tensor.sigmoid_, "neg_": torch.Tensor.neg_,
    "add_": lambda y: y.add_(1), "sqrt": torch.sqrt,
}  # fmt: skip


@pytest.mark.parametrize("backend", ["inductor", "aot_eager_decomp_partition"])
@pytest.mark.parametrize("finish", FINISH)
@pytest.mark.parametrize("start", IN_PLACE)
def test_a_value_that_is_saved_before_it_is_overwritten_is_the_earlier_one(start, finish, backend):
    """The backward graph reads the product, and not the result of the operators that overwrite it in place."""

    def function(a, b, w):
        return FINISH[finish](IN_PLACE[start](a @ b.t(), w))

    def gradients(call):
        torch.manual_seed(0)
        inputs = [
            torch.randn(5, 3).requires_grad_(),
            torch.randn(5, 3).requires_grad_(),
            torch.randn(5, 5).requires_grad_(),
        ]
        result = call(*inputs)
        found = torch.autograd.grad(result.cos().square().sum(), inputs, allow_unused=True)
        return [result, *(gradient for gradient in found if gradient is not None)]

    torch.testing.assert_close(
        gradients(nbcompile.compile(function, backend=backend)), gradients(function), equal_nan=True
    )


@torch.library.custom_op("joint_tracer_tests::doubled", mutates_args=())
def _doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@_doubled.register_fake
def _doubled_shape(x):
    return torch.empty_like(x)


@_doubled.register_autograd
def _doubled_gradient(context, gradient):
    raise RuntimeError("the derivative fails")


@pytest.mark.filterwarnings("ignore::nbcompile.errors.GeneratedCodeWarning")
def test_a_derivative_that_fails_leaves_no_state_of_the_dispatcher():
    """A symbolic graph whose derivative raises runs as captured, and the dispatcher has the keys that it had before."""
    keys = torch._C._dispatch_tls_local_include_set
    before = keys().raw_repr()
    x = torch.arange(3.0, requires_grad=True)
    compiled = nbcompile.compile(lambda x: _doubled(x) * x.shape[0], dynamic=True)
    assert torch.equal(compiled(x), torch.tensor([0.0, 6.0, 12.0]))
    assert keys().raw_repr() == before
