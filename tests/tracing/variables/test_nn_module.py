"""Modules: parameters, buffers and submodules are read from the dicts of nn.Module."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import nbcompile
from tests.support.answers import described
from tests.support.graphs import Graphs


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("scale", torch.ones(2))
        self.plain = 3
        self.nothing = None
        self.register_parameter("missing", None)

    def forward(self, x):
        return self.linear(x) * self.scale + self.plain


def both(function, *inputs):
    """The function of two equal modules, in eager mode and compiled in one graph."""
    torch.manual_seed(0)
    eager = function(Net(), *inputs)
    torch.manual_seed(0)
    net = Net()
    return eager, nbcompile.compile(lambda *given: function(net, *given), backend="eager", fullgraph=True)(*inputs), net


PROGRAMS = {
    "members": lambda net, x: (
        net(x),
        "linear" in dict(net.named_children()),
        [name for name, _ in net.named_parameters()],
    ),
    "absent": lambda net, x: (x + 1, hasattr(net, "zz"), net.nothing, net.missing, getattr(net, "zz", 5)),
    "truth": lambda net, x: (x + 1, bool(net), bool(nn.Sequential()), len(nn.ModuleList([net, net]))),
    "training": lambda net, x: (x + 1, net.training, net.eval().training, net.linear.training),
    "lists": lambda net, x: [layer(x) for layer in nn.Sequential(net.linear, nn.ReLU())],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_a_program_asks_of_a_module(name):
    """The answers are eager mode's, in one graph."""
    eager, compiled, _ = both(PROGRAMS[name], torch.randn(3, 2))
    assert described(compiled) == described(eager)


def test_a_buffer_that_is_replaced_is_still_a_buffer():
    """A buffer is stored in the module's dict of buffers, and a plain attribute is not."""

    def replace(net, x):
        net.scale = x[0] * 2
        net.plain = 4
        return net.scale + net.plain, "scale" in net._buffers, "plain" in net._buffers

    x = torch.ones(1, 2)
    eager, compiled, net = both(replace, x)
    assert described(compiled) == described(eager)
    assert torch.equal(net._buffers["scale"], x[0] * 2) and net.plain == 4 and "scale" not in net.__dict__


def test_a_name_that_no_dict_has():
    """The error is that of nn.Module, and the program can catch it."""

    def ask(net, x):
        try:
            return net.zz
        except AttributeError as error:
            return x + 1, str(error)

    eager, compiled, _ = both(ask, torch.ones(1))
    assert compiled[1] == eager[1] == "'Net' object has no attribute 'zz'"


class Holder(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x) + 1


@pytest.mark.parametrize(
    "wrap", [lambda module: module, Holder, lambda module: torch.fx.symbolic_trace(Holder(module))]
)
def test_a_graph_module_is_inlined(wrap):
    """The call of an ``fx.GraphModule`` is its forward, in one graph; a recompiled graph is another one."""
    module = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    outer = wrap(module)
    graphs = Graphs()
    compiled = nbcompile.compile(lambda x: outer(x) * 2, backend=graphs, fullgraph=True)
    x = torch.randn(3, 2)
    assert torch.equal(compiled(x), outer(x) * 2)
    assert len(graphs) == 1
    for node in module.graph.nodes:
        if node.op == "call_module" and node.target == "1":
            node.target = "0"
    module.recompile()
    assert torch.equal(compiled(x), outer(x) * 2)
    module.register_forward_hook(lambda module, arguments, result: result - 1)
    assert torch.equal(compiled(x), outer(x) * 2)


class Counting(torch.fx.GraphModule):
    calls = 0

    def __call__(self, *arguments):
        type(self).calls += 1
        return super().__call__(*arguments)


def test_the_own_call_of_a_graph_modules_class_runs():
    """A class that derives from GraphModule and has a ``__call__`` of its own is called by it."""
    module = Counting(nn.ReLU(), torch.fx.symbolic_trace(nn.ReLU()).graph)
    x = torch.randn(3)
    before = type(module).calls
    assert torch.equal(nbcompile.compile(lambda x: module(x) * 2)(x), x.relu() * 2)
    assert type(module).calls == before + 1
