"""Mutation between the forward and the backward pass: compiled gradients equal eager's, or raise eager's error."""

from __future__ import annotations

import pytest
import torch
import torch.fx
import torch.nn.functional as F

import nbcompile
from nbcompile.aot import exposed_memory
from nbcompile.capture.node_meta import SAVED_IN_EAGER

pytestmark = pytest.mark.usefixtures("nothing_compiled")

PROGRAMS = {
    "sum": lambda a, w: (a + 1).sin() * w.exp(),
    "result of exp": lambda a, w: a.exp() + w,
    "sigmoid": lambda a, w: a.sigmoid() * (w + 1),
    "clamp": lambda a, w: (a + 1).clamp(-1, 1) * w,
    "relu": lambda a, w: a.relu() + w.tanh(),
    "chain": lambda a, w: ((a * 2).sin().cos() + w).tanh(),
    "layer norm": lambda a, w: F.layer_norm(a + 1, (4,), w[0] * 2, w[1]),
    "gelu and a product": lambda a, w: F.gelu(a * 2) @ w,
    "other dtype": lambda a, w: a.double().sin() + w,
    "attention": lambda a, w: F.scaled_dot_product_attention((a + 1)[None], (w + 1)[None], (a * w)[None]),
    "in place": lambda a, w: (a + 1).mul_(2).sin_() * w,
    "part": lambda a, w: (a[1:3] + 1).sin().sum() + w,
    "results": lambda a, w: ((y := a * 2), (y + 1).sin() + w),
    "result of a product": lambda a, w: ((y := a @ w), (y + 1).sin()),
    "view of a result": lambda a, w: (a * w).exp().view(-1),
    "two views of it": lambda a, w: ((y := (a @ w).exp())[1:], y[:2]),
    "result whose view is read": lambda a, w: ((y := a @ w), y.t() @ w),
    "power": lambda a, w: (a.abs() + 1).pow(w),
    "distance": F.mse_loss,
    "twice": lambda a, w: (a + 1, (a + 1).sin() + w),
}
CHANGES = {
    "a": lambda a, w, result: a.mul_(2),
    "a row of a": lambda a, w, result: a[0].zero_(),
    "w": lambda a, w, result: w.add_(1),
    "result": lambda a, w, result: result.mul_(2),
}


def gradients(function, change):
    """The gradients after a mutation between the call and the backward pass, or the word for autograd's rejection."""
    torch.manual_seed(0)
    a, w = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
    results = function(a, w)
    if isinstance(results, torch.Tensor):
        results = (results,)
    loss = sum(each.sum() for each in results)
    with torch.no_grad():
        change(a, w, results[0])
    try:
        return torch.autograd.grad(loss, [a, w])
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
        return "overwritten"


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_what_is_overwritten_before_the_backward(program, dynamic):
    """Tensors that eager mode does not save may be overwritten; for others the backward raises, as in eager mode."""
    compiled = nbcompile.compile(program, dynamic=dynamic)
    for name, change in CHANGES.items():
        expected, found = gradients(program, change), gradients(compiled, change)
        if expected == "overwritten":
            assert found == "overwritten", name
        else:
            torch.testing.assert_close(found, expected, msg=name)


@pytest.mark.fast_path  # under AOTAutograd torch decomposes batch normalisation before any graph shows what eager saves
def test_a_weight_that_eager_saves_alone():
    """The partition saves the product of weight and statistic; a mutation of the weight raises all the same."""

    def program(a, w):
        return F.batch_norm(a, None, None, w[0], w[1], training=True)

    assert gradients(program, CHANGES["w"]) == "overwritten"
    assert gradients(nbcompile.compile(program), CHANGES["w"]) == "overwritten"


def test_writes_that_autograd_does_not_see():
    """An optimiser step through ``.data`` is not seen by autograd: the gradient uses the old weights."""

    def program(x, w):
        return ((w + 1) * x).sin().sum()

    results = []
    for function in (program, nbcompile.compile(program)):
        torch.manual_seed(0)
        x, w = torch.randn(4), torch.nn.Parameter(torch.randn(4))
        losses = [function(x, w), function(x, w)]
        for loss in losses:
            loss.backward()
            w.data.sub_(w.grad)
        results.append(w.grad)
    torch.testing.assert_close(*results)


def test_a_graph_that_torch_partitions():
    """AOTAutograd partitions a graph that mutates an input; it recomputes nothing from a parameter either."""

    def program(x, w, counter):
        counter.add_(1)
        return ((w + 1) * x).sin() * 2

    results = []
    for function in (program, nbcompile.compile(program)):
        torch.manual_seed(0)
        x, w, counter = torch.randn(4), torch.nn.Parameter(torch.randn(4)), torch.zeros(())
        loss = function(x, w, counter).sum()
        with torch.no_grad():
            w.mul_(2)
        loss.backward()
        assert counter == 1
        results.append(w.grad)
    torch.testing.assert_close(*results)


def test_marks_are_on_all_views_of_a_memory():
    """An input is marked as saved if the derivative reads a view of it; a result that nothing reads is not marked."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.ones(2, 3)
    view = graph.call_function(torch.ops.aten.t.default, (x,))
    view.meta["val"] = x.meta["val"].t()
    result = graph.call_function(torch.ops.aten.neg.default, (x,))
    result.meta["val"] = -x.meta["val"]
    gradient = graph.call_function(torch.ops.aten.sin.default, (view,))
    gradient.meta["val"] = view.meta["val"].sin()
    graph.output((result, gradient))
    exposed_memory.mark_saved(graph, 1, {x, view, result})
    assert [node.name for node in graph.nodes if SAVED_IN_EAGER in node.meta] == ["x", "t_default"]
    assert exposed_memory.unsaved(graph, [result]) == {exposed_memory.memory(result)}


@pytest.mark.parametrize("write", [lambda y: None, lambda y: y.mul_(2)], ids=["read", "written"])
def test_a_check_in_the_graph_is_no_result(write):
    """The graph of ``solve`` returns the token of its check before its result, and saves the result for backward."""

    def seen(function):
        torch.manual_seed(0)
        a, b = torch.randn(3, 3, requires_grad=True), torch.randn(3, requires_grad=True)
        y = function(a, b)
        with torch.no_grad():
            write(y.detach())
        try:
            y.sum().backward()
        except RuntimeError as error:
            return "modified by an inplace operation" in str(error)
        return [each.grad.numpy().round(4).tolist() for each in (a, b)]

    assert seen(nbcompile.compile(torch.linalg.solve, fullgraph=True)) == seen(torch.linalg.solve)
