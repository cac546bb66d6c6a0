"""Modules: parameters, buffers and submodules are read from the dicts of nn.Module."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import nbcompile
from tests.support.answers import described


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
