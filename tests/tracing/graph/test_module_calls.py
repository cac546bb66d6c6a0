"""The module stack of each node, as in torch.

In torch: nn_module_stack in test/dynamo/test_export.py and test/export/test_export.py.
"""

import pytest
import torch

import nbcompile


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)
        self.seq = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(4, 4))

    def forward(self, x):
        return self.seq(self.lin(x)) + 1


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(), Block()])
        self.norms = torch.nn.ModuleDict({"a b": torch.nn.LayerNorm(4)})
        self.shared = torch.nn.Tanh()

    def forward(self, x):
        for block in self.blocks:
            x = self.shared(block(x))
        return self.norms["a b"](x).sin()


NET = Net()


def calls_a_global(x):
    return NET(x) * 2


def without_modules(x):
    return torch.relu(x).sum()


def told(compiler, function):
    """For each call node: the path and class of each surrounding module, and its source functions."""
    found = []

    def backend(module, inputs):
        for node in module.graph.nodes:
            if node.op.startswith("call"):
                around = node.meta.get("nn_module_stack", {})
                ends = [key.partition("@")[2] for key in around]
                found.append((list(around.values()), ends, [source for _, source in node.meta["source_fn_stack"]]))
        return module.forward

    compiler(function, backend=backend)(torch.randn(3, 4))
    return found


@pytest.mark.peer
@pytest.mark.parametrize("function", [NET, calls_a_global, without_modules], ids=["module", "global", "none"])
def test_the_modules_around_each_node_are_torchs(function):
    """Paths, classes, repeated calls of a module, and sources of nodes equal those of torch.compile."""
    expected = told(torch.compile, function)
    nbcompile.reset()
    assert told(nbcompile.compile, function) == expected
    assert bool(expected[0][0]) == (function is not without_modules)


def test_a_module_whose_forward_raises_is_left():
    """A node after a caught exception does not belong to the module that raised it."""

    class Raises(torch.nn.Module):
        def forward(self, x):
            x.sin()
            raise ValueError

    bad = Raises()

    def f(x):
        try:
            bad(x)
        except ValueError:
            return x.cos()
        return x

    assert [len(around) for around, _, _ in told(nbcompile.compile, f)][-1] == 0
