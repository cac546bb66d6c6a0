"""The short runtime wrapper of a training step: it does what AOTAutograd's does, where nothing more is needed."""

import pytest
import torch
import torch.fx

import nbcompile
from nbcompile import config
from nbcompile.aot.compile import compile_graph
from nbcompile.aot.compilers import Compilers


def compiled(function, *inputs):
    nothing = Compilers(*[lambda graph, examples: Boxed(graph)] * 3)
    return compile_graph(torch.fx.symbolic_trace(function), inputs, nothing)


class Boxed:
    def __init__(self, graph):
        self.graph = graph
        self._boxed_call = True

    def __call__(self, inputs):
        return self.graph(*inputs)


def is_short(call):
    """True if the call is an autograd function's own ``apply`` without a wrapper."""
    return isinstance(getattr(call, "__self__", None), type) and issubclass(call.__self__, torch.autograd.Function)


def learning(*shape):
    return torch.rand(*shape, requires_grad=True)


def test_gradients_are_eagers():
    """Outputs, gradients of all inputs, and several backward passes through one graph equal eager's."""

    def f(x, y):
        return (torch.tanh(x @ y), (x * 2).sum())

    x, y = learning(3, 4), learning(4, 2)
    call = compiled(f, x, y)
    assert is_short(call)
    ours, eagers = call(x, y), f(x, y)
    torch.testing.assert_close(ours, eagers)
    for _ in range(2):
        sums = [sum(each.sum() for each in outputs) for outputs in (ours, eagers)]
        torch.testing.assert_close(*[torch.autograd.grad(each, (x, y), retain_graph=True) for each in sums])


def test_outputs_that_do_not_learn():
    """An output of integers, or computed without gradients, does not require grad."""

    def f(x):
        return (x * 2, x.argmax(), x.detach() + 1)

    x = learning(4)
    call = compiled(f, x)
    assert is_short(call)
    assert [each.requires_grad for each in call(x)] == [True, False, False]


def test_an_output_that_is_a_view_inside():
    """A view of an intermediate is returned as a separate tensor."""

    def f(x):
        return ((x * 2).view(-1),)

    x = learning(2, 3)
    (result,) = compiled(f, x)(x)
    assert not result._is_view()
    result.add_(1).sum().backward()
    assert torch.equal(x.grad, torch.full((2, 3), 2.0))


def test_gradients_with_other_strides():
    """The tangent may have other strides than the output."""

    def f(x):
        return (x.exp(),)

    x = learning(3, 4)
    (result,) = compiled(f, x)(x)
    (result.t() @ torch.ones(3, 2)).sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.exp())


def test_a_saved_input_that_changes_is_noticed():
    """A mutation of a saved input before the backward pass is an error, as in eager mode."""

    def f(x, y):
        return (x * y,)

    x, y = learning(3), torch.rand(3)
    (result,) = compiled(f, x, y)(x, y)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_double_backward_is_an_error():
    """A compiled graph has only a first derivative; a second one raises an error that says so."""
    x = learning(3)
    (result,) = compiled(lambda x: (x.exp(),), x)(x)
    (gradient,) = torch.autograd.grad(result.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        gradient.sum().backward()


@pytest.mark.parametrize(
    "function",
    [lambda x: (x.view(-1), x * 2), lambda x: (x.detach().add_(1), x * 2), lambda x: (x, x * 2)],
    ids=["a view of an input", "an input that is changed", "an input"],
)
def test_what_needs_more_takes_the_long_way(function):
    """Graphs with aliasing and mutation have AOTAutograd's wrapper."""
    x = learning(2, 3)
    assert not is_short(compiled(function, x))


def test_a_training_loop_through_the_whole_compiler():
    """Several steps of a small network through the whole compiler give eager's parameters."""

    def train(compile):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        call = compile(lambda x: net(x).pow(2).mean())
        optimiser = torch.optim.SGD(net.parameters(), 0.1)
        for _ in range(5):
            optimiser.zero_grad()
            call(torch.linspace(-1, 1, 12).view(3, 4)).backward()
            optimiser.step()
        return [each.detach() for each in net.parameters()]

    nbcompile.reset()
    for ours, theirs in zip(train(nbcompile.compile), train(lambda function: function), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("made", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_recurrent_layers_learn(made):
    """ATen's LSTM saves a workspace for the backward if gradients are enabled; inside of a Function they are not."""
    layers, x = made(3, 4), torch.rand(5, 2, 3)

    def gradients(function):
        layers.zero_grad()
        function(x).backward()
        return [each.grad for each in layers.parameters()]

    def f(x):
        return (layers(x)[0] ** 2).sum()

    with config.patch(allow_rnn=True):
        torch.testing.assert_close(gradients(nbcompile.compile(f, fullgraph=True)), gradients(f))
