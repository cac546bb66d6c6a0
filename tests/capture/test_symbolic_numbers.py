"""Symbolic exponents in graphs that are differentiated: the backend gets the number, and a guard on it."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import nbcompile
from nbcompile import backends, errors

POWERS = {
    "exponent": lambda x, n: x**n,
    "base": lambda x, n: n**x,
    "method": lambda x, n: x.pow(n),
    "function": lambda x, n: torch.pow(x, n),
    "float_power": lambda x, n: torch.float_power(x, n),
    "in place": lambda x, n: (x * 1).pow_(n),
    "of an expression": lambda x, n: x ** (n + 1) * n,
    "of a size": lambda x, n: x ** x.new_ones(n).shape[0],
    "behind a checkpoint": lambda x, n: checkpoint(lambda t: t.sin(), x, use_reentrant=False) ** n,
    "detached": lambda x, n: x.detach() ** n + x * n,
}


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("backend", ["inductor", "aot_eager"])
@pytest.mark.parametrize("name", POWERS)
def test_a_power_is_differentiated_at_each_exponent(name, backend):
    """Values and gradients are eager mode's for a second, a third, and a zero exponent, and the graph is compiled."""
    function = POWERS[name]
    compiled = nbcompile.compile(lambda x, n: function(x, n).sum(), fullgraph=True, backend=backend)
    for n in (2, 3, 4, 0):
        x, y = (torch.tensor([0.5, 1.5], requires_grad=True) for _ in range(2))
        with warnings.catch_warnings():
            warnings.simplefilter("error", errors.GeneratedCodeWarning)
            found = compiled(x, n)
        expected = function(y, n).sum()
        torch.testing.assert_close(found, expected)
        found.backward()
        expected.backward()
        torch.testing.assert_close(x.grad, y.grad)


@pytest.mark.usefixtures("nothing_compiled")
def test_an_exponent_inside_a_checkpoint_is_eagers():
    """The body of a higher-order operator has the exponent as an argument: such a graph runs as it was captured."""
    compiled = nbcompile.compile(lambda x, n: checkpoint(lambda t: t**n, x, use_reentrant=False).sum())
    for n in (2, 3, 4, 0):
        x, y = (torch.tensor([0.5, 1.5], requires_grad=True) for _ in range(2))
        compiled(x, n).backward()
        (y**n).sum().backward()
        torch.testing.assert_close(x.grad, y.grad)


@pytest.mark.usefixtures("nothing_compiled")
def test_an_exponent_without_a_gradient_stays_symbolic():
    """A graph that is not differentiated has one dynamic graph for all exponents."""
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return backends.inductor(module, inputs)

    compiled = nbcompile.compile(lambda x, n: x**n, backend=backend)
    for n in (2, 3, 4, 5):
        torch.testing.assert_close(compiled(torch.tensor([0.5, 1.5]), n), torch.tensor([0.5, 1.5]) ** n)
    assert len(graphs) == 2
