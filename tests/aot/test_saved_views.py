"""Views of inputs that the backward reads: if the input is overwritten, autograd raises, as in eager mode."""

from __future__ import annotations

import operator

import pytest
import torch
import torch.fx
import torch.nn.functional as F

import nbcompile
from nbcompile.aot.saved_views import save_inputs, viewed_input

pytestmark = pytest.mark.usefixtures("nothing_compiled")

PROGRAMS = {
    "product": lambda a, w: (a @ w).sin(),
    "transposed": lambda a, w: (a.t() @ w.t()).cos(),
    "batches": lambda a, w: torch.bmm(a.view(1, 4, 4), w.unsqueeze(0)),
    "row": lambda a, w: a[0] * w[1],
    "expand": lambda a, w: a[:1].expand(4, 4) * w,
    "diagonal": lambda a, w: a.diagonal() * w.diagonal(),
    "chunks": lambda a, w: a.chunk(2)[0] * w.chunk(2)[1],
    "reshape": lambda a, w: a.reshape(2, 8) @ w.reshape(8, 2),
    "convolution": lambda a, w: F.conv1d(a.view(1, 4, 4), w[:, :, None]),
    "detached": lambda a, w: a @ w.detach(),
    "norm": lambda a, w: F.layer_norm(a, (4,), w[0], w[1]),
}


def leaves():
    torch.manual_seed(0)
    return torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)


def gradients(function, change=lambda a, w: None, inputs=leaves):
    """The gradients of a and w after a change before ``backward``, or the word for autograd's rejection."""
    a, w = inputs()
    result = function(a, w).sum()
    with torch.no_grad():
        change(a, w)
    try:
        found = torch.autograd.grad(result, [each for each in (a, w) if each.requires_grad], allow_unused=True)
    except RuntimeError as error:
        if "modified inplace" not in str(error) and "modified by an inplace operation" not in str(error):
            raise
        return "overwritten"
    return found


def overwrite_w(_a, w):
    w.mul_(2)


def overwrite_a_row(a, _w):
    a[0].mul_(2)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_an_input_that_was_overwritten_is_an_error(program, dynamic):
    """A compiled backward raises if an input was overwritten, as eager's does; otherwise gradients equal eager's."""
    compiled = nbcompile.compile(program, dynamic=dynamic)
    torch.testing.assert_close(gradients(compiled), gradients(program))
    for change in (overwrite_w, overwrite_a_row):
        expected = gradients(program, change)
        found = gradients(compiled, change)
        if expected == "overwritten":
            assert found == "overwritten"
        else:
            torch.testing.assert_close(found, expected)


def test_inputs_that_are_views_themselves():
    """If the base of an input is overwritten, the backward raises, too: a base and its views share one version."""
    base = torch.randn(6, 4, requires_grad=True)

    def inputs():
        return base[1:5], torch.ones(4, 4)

    def overwrite_base(_a, _w):
        base.mul_(2)

    def program(a, w):
        return (a.t() @ w) * a[0]

    def found(function):
        a, w = inputs()
        result = function(a, w).sum()
        with torch.no_grad():
            overwrite_base(a, w)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            torch.autograd.grad(result, base)

    found(program)
    found(nbcompile.compile(program))


def test_a_graph_that_writes_to_another_input():
    """AOTAutograd partitions such a graph: its views of inputs are not saved either, and the write is no error."""

    def program(a, w, counter):
        counter.add_(1)
        return (a @ w) * counter

    compiled = nbcompile.compile(program)
    for change in (lambda a, w: None, overwrite_w, overwrite_a_row):
        results = []
        for function in (program, compiled):
            counter = torch.zeros(4)
            results.append(gradients(lambda a, w, f=function, c=counter: f(a, w, c), change))
            assert counter.tolist() == [1.0] * 4
        assert (results[0] == "overwritten") == (results[1] == "overwritten")
        if results[0] != "overwritten":
            torch.testing.assert_close(*results)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_the_saved_value_is_the_input(backend):
    """Hooks on saved tensors get the input itself: it has the user's version, and is saved once."""
    a, w = leaves()
    packed = []

    def keep(tensor):
        packed.append((tensor.data_ptr(), tuple(tensor.stride())))
        return tensor

    compiled = nbcompile.compile(lambda a, w: (a @ w, a @ w.t()), backend=backend)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        compiled(a, w)
    assert sorted(packed) == sorted([(a.data_ptr(), (4, 1)), (w.data_ptr(), (4, 1))])


def graph_with(value):
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = value
    return graph, x


def add(graph, target, *arguments):
    node = graph.call_function(target, arguments)
    node.meta["val"] = target(*(each.meta["val"] if isinstance(each, torch.fx.Node) else each for each in arguments))
    return node


def test_the_input_of_a_view():
    """A view of a view, and each result of a split, lead to the input; a copy has its own memory."""
    graph, x = graph_with(torch.ones(4, 4))
    turned = add(graph, torch.ops.aten.t.default, x)
    parts = add(graph, torch.ops.aten.split.Tensor, turned, 2)
    part = graph.call_function(operator.getitem, (parts, 0))
    copied = add(graph, torch.ops.aten.clone.default, turned)
    assert [viewed_input(each) for each in (x, turned, part)] == [x, x, x]
    assert viewed_input(copied) is None
    assert viewed_input(add(graph, torch.ops.aten.t.default, copied)) is None


def test_two_views_of_one_input_are_saved_once():
    """The backward graph takes the input once, and recomputes both views of it."""
    forward, x = graph_with(torch.ones(4, 4))
    first, second = (add(forward, torch.ops.aten.select.int, x, 0, at) for at in (0, 1))
    forward.output((first, first, second))
    backward = torch.fx.Graph()
    inputs = [backward.placeholder(each.name) for each in (first, second)]
    for node, saved in zip(inputs, (first, second), strict=True):
        node.meta = dict(saved.meta)
    backward.output((add(backward, torch.ops.aten.mul.Tensor, *inputs),))
    save_inputs(forward, backward, 1)
    backward.lint()
    assert forward.output_node().args[0] == (first, x)
    assert [node.name for node in backward.find_nodes(op="placeholder")] == ["x"]
    given = torch.arange(16.0).reshape(4, 4)
    (result,) = torch.fx.Interpreter(torch.fx.GraphModule({}, backward)).run(given)
    assert torch.equal(result, given[0] * given[1])
