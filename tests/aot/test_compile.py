"""Each backend from aot_eager to inductor computes what eager mode computes: results, mutation, aliasing, gradients."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing._internal.two_tensor import TwoTensor

import nbcompile
from nbcompile import backends
from tests.support.captured import Captured, capture, check, compiled, copies, fake_examples

LADDER = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")
each_backend = pytest.mark.parametrize("backend", LADDER)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


# --- models ----------------------------------------------------------------------------------------------------------


class Block(nn.Module):
    """A transformer block, written as separate steps."""

    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        parts = self.qkv(self.norm1(x)).chunk(3, -1)
        q, k, v = (parts[i].unflatten(-1, (self.heads, -1)).transpose(1, 2) for i in range(3))
        attention = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attention.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Norm(nn.Module):
    """A BatchNorm without the checks of nn.BatchNorm2d, which symbolic_trace cannot follow."""

    def __init__(self, channels):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.rand(channels)), nn.Parameter(torch.rand(channels))
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("var", torch.ones(channels))

    def forward(self, x):
        return F.batch_norm(x, self.mean, self.var, self.weight, self.bias, self.training)


class Tied(nn.Module):
    """A model that uses its embedding weight as output projection, too."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)

    def forward(self, tokens):
        return F.log_softmax(self.embedding(tokens) @ self.embedding.weight.t(), -1)


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)), lambda: torch.randn(5, 8)),
    "cnn": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 5), nn.LogSoftmax(-1)
        ),
        lambda: torch.randn(2, 3, 8, 8),
    ),
    "batch norm in training": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), Norm(4), nn.ReLU()),
        lambda: torch.randn(2, 3, 8, 8),
    ),
    "batch norm in eval": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), Norm(4), nn.ReLU()).eval(),
        lambda: torch.randn(2, 3, 8, 8),
    ),
    "transformer block": (Block, lambda: torch.randn(2, 6, 16)),
    "tied embedding": (Tied, lambda: torch.randint(0, 11, (2, 5))),
    "layer and group norm": (
        lambda: nn.Sequential(nn.GroupNorm(2, 4), nn.LayerNorm(6), nn.SiLU()),
        lambda: torch.randn(3, 4, 6),
    ),
    "dropout in eval": (lambda: nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).eval(), lambda: torch.randn(3, 4)),
    "dropout in training": (lambda: nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), lambda: torch.randn(3, 4)),
}
each_model = pytest.mark.parametrize("model", MODELS)


@each_backend
@each_model
def test_training_of_a_model(model, backend):
    """Results and the gradients of all parameters equal eager's, random numbers with the same seed included."""
    make, arguments = MODELS[model]
    check(make(), (arguments(),), backend)


@each_backend
@each_model
def test_inference_of_a_model(model, backend):
    """Results under no_grad equal eager's."""
    make, arguments = MODELS[model]
    with torch.no_grad():
        check(make(), (arguments(),), backend)


# --- mutation and aliasing -------------------------------------------------------------------------------------------


def mutate_input(x):
    x.mul_(2)
    return x + 1


def mutate_and_return(x):
    return x.add_(1)


def mutate_through_a_view(x):
    x[0].zero_()
    return x.sum()


def mutate_metadata(x):
    x.t_()
    return x * 2


def mutate_data_and_metadata(x):
    x.t_().add_(1)
    return x * 2


def copy_into_a_row(x, y):
    x[1].copy_(y[0])
    return x + y


def mutate_intermediate(x):
    y = x + 1
    y.mul_(3).relu_()
    return y


def out_of_place_then_view(x):
    return (x + 1).t()


def input_as_output(x):
    return x, x + 1


def view_of_input(x):
    return x.view(-1), x[1:]


def two_views_of_an_intermediate(x):
    y = x * 2
    return y[0], y[1]


def output_twice(x):
    y = x.sin()
    return y, y


def none_and_number(x):
    return x + 1, None, 3


def several_outputs(x):
    return x.sin(), x.sum(), x.argmax(-1)


def detached(x):
    return x.detach(), x.detach() * 2


def constant_inside(x):
    return x + x.new_ones(3, 4), x.new_full((2,), 3.0)


def random_numbers(x):
    return x + torch.rand_like(x), F.dropout(x, 0.5)


def mutates_both(x, y):
    x.add_(y)
    y.mul_(x)
    return x - y


ONE_INPUT = (
    mutate_through_a_view, mutate_intermediate, out_of_place_then_view, input_as_output, view_of_input,
    two_views_of_an_intermediate, output_twice, none_and_number, several_outputs, detached, constant_inside,
    random_numbers, mutate_input, mutate_and_return, mutate_metadata, mutate_data_and_metadata,
)  # fmt: skip
IN_PLACE_ON_THE_INPUT = {
    mutate_through_a_view, mutate_input, mutate_and_return, mutate_metadata, mutate_data_and_metadata,
}  # fmt: skip


@each_backend
@pytest.mark.parametrize("function", ONE_INPUT, ids=lambda f: f.__name__)
def test_mutation_and_aliasing(function, backend):
    """Mutation of the input, and aliasing between results, are as in eager mode."""
    check(function, (torch.randn(3, 4),), backend)


@each_backend
@pytest.mark.parametrize("function", [f for f in ONE_INPUT if f not in IN_PLACE_ON_THE_INPUT], ids=lambda f: f.__name__)
def test_aliasing_with_gradients(function, backend):
    """Mutation and aliasing are eager's for an input that requires grad (a leaf may not be mutated in place)."""
    check(function, (torch.randn(3, 4, requires_grad=True),), backend)


@each_backend
@pytest.mark.parametrize("function", [copy_into_a_row, mutates_both], ids=lambda f: f.__name__)
def test_two_inputs(function, backend):
    """A graph that mutates one or both of two inputs changes them as eager mode does."""
    check(function, (torch.randn(3, 4), torch.randn(3, 4)), backend)


@each_backend
def test_item_assignment(backend):
    """``x[1] = y`` mutates the input as in eager mode."""
    graph = torch.fx.Graph()
    x, y = graph.placeholder("l_x_"), graph.placeholder("l_y_")
    graph.call_function(operator.setitem, (x, 1, y))
    graph.output((graph.call_function(torch.add, (x, 1)),))
    given, row = torch.zeros(3, 4), torch.ones(4)
    (result,) = compiled_with(graph, fake_examples([given, row]), backend)(given, row)
    assert given.sum(1).tolist() == [0, 4, 0]
    torch.testing.assert_close(result, given + 1)


@each_backend
def test_inputs_that_share_memory(backend):
    """A graph may mutate two inputs of which one is a view of the other."""
    base = torch.randn(3, 4)
    check(mutates_both, (base, base.view(3, 4)), backend)


@each_backend
def test_one_tensor_twice(backend):
    """A graph may take the same tensor for two inputs."""
    x = torch.randn(3, 4, requires_grad=True)
    check(lambda a, b: a.sin() * b, (x, x), backend)


@each_backend
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex64], ids=str)
def test_dtypes(dtype, backend):
    """Results equal eager's for each dtype."""
    x = torch.tensor([[0, 1, 2], [1, 0, 3]]).to(dtype)
    check(lambda a: (a.clone().t(), a == a, torch.cat([a, a])), (x,), backend)


@each_backend
def test_no_output(backend):
    """A graph without results may mutate its input."""
    x = torch.zeros(3)
    captured = capture(lambda a: (a.add_(1),), (x,))
    (output,) = captured.module.graph.find_nodes(op="output")
    output.args = ((),)
    captured.module.recompile()
    run = compiled(captured, backend)
    assert list(run(x)) == []
    assert x.tolist() == [1, 1, 1]


@each_backend
def test_empty_tensors(backend):
    """Tensors without elements work as in eager mode."""
    check(lambda a: (a.sum(), a + 1, a.t()), (torch.randn(0, 4, requires_grad=True),), backend)


# --- training --------------------------------------------------------------------------------------------------------


@each_backend
def test_graph_is_kept_when_asked(backend):
    """backward(retain_graph=True) may be called twice; without it the second call is an error, as in eager mode."""
    x = torch.randn(3, 4, requires_grad=True)
    captured = capture(lambda a: (a.sin() * a).sum(), (x,))
    (loss,) = compiled(captured, backend)(x)
    loss.backward(retain_graph=True)
    first = x.grad.clone()
    loss.backward()
    torch.testing.assert_close(x.grad, 2 * first)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


@each_backend
def test_frozen_parameters(backend):
    """Parameters that do not require grad get no gradient; the others do."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    model[0].requires_grad_(False)
    check(model, (torch.randn(3, 4),), backend)


@each_backend
def test_result_of_one_graph_feeds_another(backend):
    """Gradients flow through two compiled graphs and the eager code between them."""
    x = torch.randn(3, 4, requires_grad=True)
    run = compiled(capture(lambda a: F.gelu(a), (x,)), backend)
    y = run(x)[0] * 2
    twin = y.detach().clone().requires_grad_()
    again = compiled(capture(lambda a: a.tanh().sum(), (twin,)), backend)
    again(y)[0].backward()
    mine, x.grad = x.grad, None
    (F.gelu(x) * 2).tanh().sum().backward()
    torch.testing.assert_close(mine, x.grad)


@each_backend
def test_a_training_loop(backend):
    """Ten steps of SGD have the same losses as in eager mode, and the losses decrease."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    x, target = torch.randn(16, 4), torch.randn(16, 1)
    captured = capture(model, (x,))
    run = compiled(captured, backend)
    twin = copies(captured.inputs)

    def losses(step, parameters):
        for _ in range(10):
            loss = F.mse_loss(step(x, *parameters)[0], target)
            gradients = torch.autograd.grad(loss, parameters)
            with torch.no_grad():
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter -= 0.1 * gradient
            yield loss.item()

    ours, eager = list(losses(run, captured.inputs[1:])), list(losses(captured.module.forward, twin[1:]))
    assert ours == pytest.approx(eager, rel=1e-4)
    assert ours[-1] < ours[0]


@each_backend
def test_autocast(backend):
    """A function that is compiled and run under autocast has eager's dtypes and results."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        check(lambda a, b: (a @ b).softmax(-1), (torch.randn(4, 4, requires_grad=True), torch.randn(4, 4)), backend)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        check(lambda a, b: (a @ b) + 1, (torch.randn(4, 4), torch.randn(4, 4)), backend)


@each_backend
def test_gradient_of_a_strided_tangent(backend):
    """The tangent may have other strides than the traced one."""
    x = torch.randn(3, 4, requires_grad=True)
    (y,) = compiled(capture(lambda a: a.sin(), (x,)), backend)(x)
    y.backward(torch.randn(4, 3).t())
    y2 = x.sin()
    assert x.grad is not None
    (expected,) = torch.autograd.grad(y2.sum(), x)
    (z,) = compiled(capture(lambda a: a.sin(), (x,)), backend)(x)
    (got,) = torch.autograd.grad(z.sum(), x)
    torch.testing.assert_close(got, expected)


@each_backend
def test_no_grad_inside(backend):
    """A no_grad region inside a graph with gradients passes no gradient on."""
    graph = torch.fx.Graph()
    x = graph.placeholder("l_x_")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    y = graph.call_function(torch.mul, (x, 2))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    graph.output((y, graph.call_function(torch.mul, (x, y))))
    given = torch.randn(3, requires_grad=True)
    run = compiled_with(graph, fake_examples([given]), backend)
    constant, result = run(given)
    assert torch.is_grad_enabled()
    assert not constant.requires_grad
    result.sum().backward()
    torch.testing.assert_close(given.grad, 2 * given.detach())


# --- dynamic shapes --------------------------------------------------------------------------------------------------


@each_backend
@pytest.mark.parametrize("training", [False, True])
def test_dynamic_sizes(training, backend):
    """One compiled graph serves several sizes."""

    def function(a, b):
        return F.softmax(a @ b, -1).sum(0)

    examples = [torch.randn(5, 6, requires_grad=training), torch.randn(6, 7)]
    run = compiled(capture(function, examples), backend, dynamic=True)
    for rows, inner, columns in ((5, 6, 7), (9, 2, 3)):
        a, b = torch.randn(rows, inner, requires_grad=training), torch.randn(inner, columns)
        (result,) = run(a, b)
        torch.testing.assert_close(result, function(a, b))
        if training:
            (ours,) = torch.autograd.grad((result**2).sum(), a)
            (eager,) = torch.autograd.grad((function(a, b) ** 2).sum(), a)
            torch.testing.assert_close(ours, eager)


@each_backend
def test_symbolic_number_as_an_input(backend):
    """A symbolic size may be a separate input, as the front end passes it for ``dynamic=True``."""
    graph = torch.fx.Graph()
    size, x = graph.placeholder("s77"), graph.placeholder("l_x_")
    graph.output((graph.call_function(torch.mul, (x, size)), size))
    fake = fake_examples([torch.randn(5, 3)], dynamic=True)[0]
    run = compiled_with(graph, [fake.shape[0], fake], backend)
    for rows in (5, 8):
        given = torch.randn(rows, 3)
        result, number = run(rows, given)
        torch.testing.assert_close(result, given * rows)
        assert number == rows


def compiled_with(graph, examples, backend):
    return backends.lookup(backend)(torch.fx.GraphModule({}, graph), examples)


@each_backend
def test_real_tensors_as_examples(backend):
    """Example inputs need not be fake: other front ends pass real tensors."""
    x = torch.randn(3, 4, requires_grad=True)
    captured: Captured = capture(lambda a: a.sin().sum(), (x,))
    run = compiled_with(captured.module.graph, [x], backend)
    torch.testing.assert_close(run(x)[0], x.sin().sum())


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_tensors_that_wrap_others(backend):
    """Wrapper subclasses may be inputs, results or intermediates, and have gradients; the graph has inner tensors."""

    def made(x):
        return TwoTensor(x, x + 1) * 2

    def loss(x):
        return (x * x + 1).sin().sum()

    pair = nbcompile.compile(made, backend=backend)(torch.ones(3))
    assert isinstance(pair, TwoTensor)
    assert torch.equal(pair.b, torch.full((3,), 4.0))
    gradients = []
    for function in (loss, nbcompile.compile(loss, backend=backend)):
        x = TwoTensor(torch.ones(3), torch.ones(3) * 2).requires_grad_()
        function(x).backward()
        gradients.append(x.grad)
    assert torch.allclose(gradients[0].a, gradients[1].a)
    assert torch.allclose(gradients[0].b, gradients[1].b)


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("backend", LADDER)
def test_a_number_out_of_a_tensor_as_an_index(backend, learns):
    """A symbol of a trace that was given up is not used in the next trace."""

    def f(n, x):
        k = n.item()
        return x[k] + 1, [1, 2, 3][k]

    x = torch.randn(4, requires_grad=learns)
    with nbcompile.config.patch(capture_scalar_outputs=True):
        found = nbcompile.compile(f, backend=backend)(torch.tensor(1), x)
    torch.testing.assert_close(found, f(torch.tensor(1), x))
