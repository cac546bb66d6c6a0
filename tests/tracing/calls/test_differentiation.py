"""``backward`` and ``torch.autograd.grad`` inside a compiled function, with ``config.trace_autograd_ops``."""

from __future__ import annotations

import copy
from contextlib import suppress

import pytest
import torch
import torch._dynamo

import nbcompile
from nbcompile import api, config
from nbcompile.record import links


def weights():
    return torch.linspace(-1, 1, 9).reshape(3, 3).requires_grad_()


def backward(w, x):
    loss = (w @ x).relu().sum()
    loss.backward()
    return loss.detach()


def twice_backward(w, x):
    loss = (w @ x).sin().sum()
    loss.backward(retain_graph=True)
    loss.backward()
    return loss.detach()


def reads_the_gradient(w, x):
    (w @ x).relu().sum().backward()
    return w.grad * 2


def zeroes_first(w, x):
    w.grad = None
    (w @ x).square().sum().backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
    return w.detach() + 1


def with_gradient(w, x):
    y = (w @ x).sin()
    y.backward(torch.ones(3) * 2)
    return y.detach()


def with_inputs(w, x):
    y = (w @ x).sin().sum()
    y.backward(inputs=[w])
    return y.detach()


def grad(w, x):
    return torch.autograd.grad((w @ x).sin().sum(), w)


def grad_of_several(w, x):
    y = (w @ x).sin()
    return torch.autograd.grad([y.sum(), y.square().sum()], [w], allow_unused=True)


def grad_of_a_result(w, x):
    y = w @ x
    (of_y,) = torch.autograd.grad(y.sin().sum(), y)
    return of_y


def penalty(w, x):
    (gradient,) = torch.autograd.grad((w @ x).sin().sum(), w, create_graph=True)
    return gradient.square().sum()


def unused(w, x):
    found = torch.autograd.grad((x.detach() * w.sum()).sum(), [w, x], allow_unused=True)
    return found[0]


def in_a_loop(w, x):
    total = torch.zeros(3, 3)
    for power in range(1, 4):
        total = total + torch.autograd.grad((w @ x).pow(power).sum(), w)[0]
    return total


ONE_GRAPH = [
    backward, twice_backward, reads_the_gradient, zeroes_first, with_gradient, with_inputs, grad, grad_of_several,
    grad_of_a_result, penalty, in_a_loop,
]  # fmt: skip
BACKENDS = ["eager", "aot_eager", "inductor"]


def outcome(function, calls: int = 3):
    """The results of several calls, the weights afterwards, and the accumulated gradients."""
    w, x = weights(), torch.tensor([1.0, 2.0, 3.0])
    results = []
    for _ in range(calls):
        result = function(w, x)
        results.append([each.detach().clone() for each in (result if isinstance(result, tuple) else (result,))])
    return [*results, [w.detach().clone()], [] if w.grad is None else [w.grad.clone()]]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", ONE_GRAPH, ids=lambda each: each.__name__)
def test_it_is_one_graph_that_computes_what_eager_does(function, backend):
    """Three calls give eager mode's results, accumulated gradients and weights, and no call breaks the graph."""
    nbcompile.reset()
    wanted = outcome(function)
    with config.patch(trace_autograd_ops=True):
        torch.testing.assert_close(outcome(nbcompile.compile(function, backend=backend, fullgraph=True)), wanted)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_result_of_a_penalty_can_be_differentiated(backend):
    """A gradient that was computed with ``create_graph=True`` can be differentiated outside the function."""
    nbcompile.reset()
    gradients = []
    with config.patch(trace_autograd_ops=True):
        for function in (penalty, nbcompile.compile(penalty, backend=backend, fullgraph=True)):
            w = weights()
            function(w, torch.tensor([1.0, 2.0, 3.0])).backward()
            gradients.append(w.grad)
    torch.testing.assert_close(gradients[1], gradients[0])


def targets(module: torch.fx.GraphModule) -> list[str]:
    """The operators of a graph, without those that set the grad mode."""
    names = [str(getattr(node.target, "__name__", node.target)) for node in module.graph.nodes]
    kinds = ("placeholder", "output", "get_attr")
    found = [name for name, node in zip(names, module.graph.nodes, strict=True) if node.op not in kinds]
    return [each for each in found if "grad_enabled" not in each]


@pytest.mark.peer
@pytest.mark.parametrize(
    "function", [backward, reads_the_gradient, with_gradient, grad, grad_of_several, grad_of_a_result, penalty],
    ids=lambda each: each.__name__,
)  # fmt: skip
def test_the_graph_is_torchs(function):
    """The real torch.compile captures the same operators in the same order."""
    nbcompile.reset()
    torch._dynamo.reset()
    captured: list[list[str]] = []

    def keep(module, inputs):
        captured.append(targets(module))
        return module.forward

    with config.patch(trace_autograd_ops=True), torch._dynamo.config.patch(trace_autograd_ops=True):
        nbcompile.compile(function, backend=keep)(weights(), torch.ones(3))
        torch.compile(function, backend=keep)(weights(), torch.ones(3))
    ours, theirs = captured
    assert ours == theirs


def returns_the_loss(w, x):
    loss = (w @ x).relu().sum()
    loss.backward()
    return loss * 2


def of_a_computed_input(y):
    loss = y.sin().sum()
    loss.backward()
    return loss.detach()


def creates_a_graph(w, x):
    loss = (w @ x).square().sum()
    loss.backward(create_graph=True)
    return loss.detach()


def broken(function, *arguments):
    """The kinds of graph breaks that one call causes."""
    recorder = api.new_recorder(function.__name__)
    with recorder.listening():
        nbcompile.compile(function, backend="eager")(*arguments)
    return {each.cause.kind for each in links.distinct_breaks(recorder.record())}


def test_a_returned_loss_is_not_freed():
    """The graph breaks before ``backward``, as in torch: the value and the gradients equal eager mode's."""
    nbcompile.reset()
    with config.patch(trace_autograd_ops=True):
        assert broken(returns_the_loss, weights(), torch.ones(3)) == {"NB0125"}
        nbcompile.reset()
        torch.testing.assert_close(outcome(nbcompile.compile(returns_the_loss)), outcome(returns_the_loss))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["leaf first", "computed first"])
def test_what_an_input_was_computed_from_gets_its_gradient(order):
    """A computed input breaks the graph; it does not reuse the graph of a leaf."""
    nbcompile.reset()
    compiled = nbcompile.compile(of_a_computed_input, backend="eager")
    with config.patch(trace_autograd_ops=True):
        for is_computed in order:
            gradients = []
            for function in (of_a_computed_input, compiled):
                leaf = weights()
                function(leaf * 2 if is_computed else leaf)
                gradients.append(leaf.grad)
            torch.testing.assert_close(gradients[1], gradients[0])


def test_hooks_of_a_leaf_run():
    """A hook on a leaf breaks the graph, also a hook that is registered after the graph was compiled."""
    nbcompile.reset()
    compiled = nbcompile.compile(backward, backend="eager")
    x = torch.tensor([1.0, 2.0, 3.0])
    w = weights()
    with config.patch(trace_autograd_ops=True):
        compiled(w, x)
        once = w.grad.clone()
        seen: list[torch.Tensor] = []
        w.register_hook(lambda gradient: gradient * 3)
        w.register_post_accumulate_grad_hook(seen.append)
        w.grad = None
        compiled(w, x)
    torch.testing.assert_close(w.grad, once * 3)
    assert len(seen) == 1


def test_a_differentiable_gradient_is_left_to_eager():
    """``backward(create_graph=True)`` makes ``.grad`` differentiable, so the graph breaks before it."""
    nbcompile.reset()
    w = weights()
    with config.patch(trace_autograd_ops=True):
        assert broken(creates_a_graph, w, torch.ones(3)) == {"NB0124"}
    assert w.grad.requires_grad


def test_arguments_of_backward_are_reported_as_values():
    """The message of the graph break shows the arguments as values, as the messages of other breaks do."""
    nbcompile.reset()
    with config.patch(trace_autograd_ops=True):
        told = nbcompile.explain(creates_a_graph, backend="eager")(weights(), torch.ones(3))
    assert told.breaks[0][0].context.endswith("backward [] {'create_graph': ConstantVariable(bool: True)}")


@pytest.mark.parametrize("setting", [False, True])
def test_the_setting_decides(setting):
    """A graph break without the setting has a hint that names the setting."""
    nbcompile.reset()
    recorder = api.new_recorder("backward")
    with recorder.listening(), config.patch(trace_autograd_ops=setting):
        nbcompile.compile(backward, backend="eager")(weights(), torch.ones(3))
    met = links.distinct_breaks(recorder.record())
    assert [each.cause.kind for each in met] == ([] if setting else ["NB0019"])
    assert all(any("config.trace_autograd_ops = True" in hint for hint in each.cause.hints) for each in met)
    assert not any("fundamental" in hint for each in met for hint in each.cause.hints)


def test_a_module_is_trained_as_in_eager():
    """One graph contains forward, backward and the update of all parameters; ten steps give eager mode's losses."""
    nbcompile.reset()
    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    x = torch.linspace(-1, 1, 20).reshape(5, 4)

    def step(model, x):
        for each in model.parameters():
            each.grad = None
        loss = model(x).square().mean()
        loss.backward()
        with torch.no_grad():
            for each in model.parameters():
                each -= 0.1 * each.grad
        return loss.detach()

    losses = []
    with config.patch(trace_autograd_ops=True):
        for function in (step, nbcompile.compile(step, fullgraph=True)):
            model = copy.deepcopy(module)
            losses.append([function(model, x) for _ in range(10)])
    torch.testing.assert_close(losses[1], losses[0])


def test_errors_of_eager_are_raised():
    """``backward`` raises eager mode's error for a loss without a gradient, and for one that is not a scalar."""
    nbcompile.reset()
    for function, arguments in (
        (lambda x: x.sum().backward(), (torch.ones(3),)),
        (lambda w: (w * 2).backward(), (weights(),)),
    ):
        with config.patch(trace_autograd_ops=True), pytest.raises(RuntimeError):
            nbcompile.compile(function, backend="eager")(*arguments)
        with suppress(RuntimeError):
            function(*arguments)


def makes_a_leaf(x):
    leaf = torch.ones(3).requires_grad_()
    (leaf * x).sum().backward()
    return leaf.grad


def test_a_leaf_that_is_made_inside_is_left_to_eager():
    """The graph breaks, because a graph cannot set ``.grad`` on a tensor that it creates."""
    nbcompile.reset()
    with config.patch(trace_autograd_ops=True):
        torch.testing.assert_close(nbcompile.compile(makes_a_leaf)(torch.ones(3)), makes_a_leaf(torch.ones(3)))
