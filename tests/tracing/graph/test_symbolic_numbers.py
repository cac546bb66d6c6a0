"""Symbolic numbers in operators that read the number itself: transforms of torch.func."""

from __future__ import annotations

import pytest
import torch

import nbcompile

OPERATORS = {
    "product": lambda s, n: s * n,
    "quotient": lambda s, n: n / s,
    "half": lambda s, n: s.half() * n,
    "power": lambda s, n: s**n,
    "base": lambda s, n: n**s,
    "method": lambda s, n: s.pow(n),
    "function": lambda s, n: torch.pow(s, exponent=n),
    "in place": lambda s, n: s.clone().pow_(n),
    "assignment": lambda s, n: _assigned(s.clone(), n),
}

TRANSFORMS = {
    "vmap": lambda operator, x, n: torch.vmap(lambda s: operator(s, n))(x),
    "vmap of a gradient": lambda operator, x, n: torch.vmap(torch.func.grad(lambda s: operator(s, n).float()))(x),
    "grad": lambda operator, x, n: torch.func.grad(lambda s: operator(s, n).float().sum())(x),
    "jacfwd": lambda operator, x, n: torch.func.jacfwd(lambda s: operator(s, n))(x),
    "hessian": lambda operator, x, n: torch.func.hessian(lambda s: operator(s, n).float().sum())(x),
}


def _assigned(s, n):
    s **= n
    return s


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_number_that_an_operator_reads_is_specialised(name, transform):
    """An operator or a derivative in torch that rejects a symbol gets the number, and a guard on it."""
    operator, transformed = OPERATORS[name], TRANSFORMS[transform]

    def function(x, n):
        return transformed(operator, x, n)

    compiled = nbcompile.compile(function, fullgraph=True, backend="eager")
    x = torch.tensor([0.5, 1.5, 2.0])
    for n in (2, 3, 4, 0):
        torch.testing.assert_close(compiled(x, n), function(x, n), rtol=0, atol=0)


@pytest.mark.usefixtures("nothing_compiled")
def test_the_floor_of_a_quotient_in_vmap():
    """``//`` has no derivative; in vmap its number is specialised, too."""
    compiled = nbcompile.compile(lambda x, n: torch.vmap(lambda s: s // n)(x), fullgraph=True, backend="eager")
    for n in (2, 3, 4):
        assert torch.equal(compiled(torch.arange(6.0), n), torch.arange(6.0) // n)


@pytest.mark.usefixtures("nothing_compiled")
def test_other_numbers_in_a_transform_stay_symbolic():
    """A number that no operator reads makes one dynamic graph."""
    graphs = []

    def function(x, n):
        return torch.vmap(lambda s: s.clamp(max=n))(x)

    compiled = nbcompile.compile(function, backend=lambda gm, inputs: graphs.append(gm) or gm)
    for n in (2, 3, 4, 5):
        assert torch.equal(compiled(torch.arange(6.0), n), function(torch.arange(6.0), n))
    assert len(graphs) == 2
