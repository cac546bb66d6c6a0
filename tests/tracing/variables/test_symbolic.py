"""Numbers that are nodes of the graph."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from tests.support.graphs import Graphs


def test_arithmetic_of_a_size_stays_symbolic():
    """One graph serves all sizes, because the number is not compared with a constant."""
    graphs = Graphs()

    compiled = nbcompile.compile(lambda x: x * (x.shape[0] + 1), backend=graphs, fullgraph=True, dynamic=True)
    for size in (3, 4, 5):
        x = torch.randn(size)
        assert compiled(x).equal(x * (size + 1))
    assert len(graphs) == 1


SIZES = [(2, 3), (4, 3), (5, 7), (3, 6)]
ONE_GRAPH = {
    "__add__": lambda n, m: n.__add__(m), "reflected": lambda n, m: (1).__add__(n), "__pow__": lambda n, m: n.__pow__(2),
    "__divmod__": lambda n, m: n.__divmod__(3), "__lt__": lambda n, m: n.__lt__(4), "__eq__": lambda n, m: n.__eq__(m),
    "__index__": lambda n, m: n.__index__(), "__neg__": lambda n, m: n.__neg__(), "__abs__": lambda n, m: n.__abs__(),
    "__truediv__": lambda n, m: n.__truediv__(2), "real": lambda n, m: (n.real, n.imag, n.numerator, n.denominator),
    "conjugate": lambda n, m: n.conjugate(), "__class__": lambda n, m: n.__class__,
    "passed on": lambda n, m: list(map(n.__add__, [1, m])), "of a quotient": lambda n, m: (n / 2).__add__(1.5),
}  # fmt: skip
SPECIALISED = {
    "__add__ of a float": lambda n, m: n.__add__(1.5), "__add__ of a text": lambda n, m: n.__add__("a"),
    "__eq__ of a text": lambda n, m: n.__eq__("a"), "__str__": lambda n, m: n.__str__(), "__hash__": lambda n, m: n.__hash__(),
    "a method that floats lack": lambda n, m: hasattr(n / 2, "__index__"),
    "of a condition": lambda n, m: (n > 3).real, "__pow__ with a modulus": lambda n, m: n.__pow__(2, 5), "__round__": lambda n, m: n.__round__(),
}  # fmt: skip


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("name", [*ONE_GRAPH, *SPECIALISED])
def test_methods_of_a_size(name):
    """A method in C that an operator replaces keeps the size symbolic; others read the number, and answer as Python does."""
    read, graphs = {**ONE_GRAPH, **SPECIALISED}[name], Graphs()
    compiled = nbcompile.compile(lambda x: (x + 1, read(*x.shape)), backend=graphs, dynamic=True)
    for sizes in SIZES:
        assert compiled(torch.ones(sizes))[1] == read(*sizes)
    assert len(graphs) == 1 or name in SPECIALISED


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("arguments", [{}, {"reverse": True}, {"key": lambda size: -size}])
def test_sorted_sizes(arguments):
    """The order of the sizes is guarded, and not the sizes themselves."""
    graphs = Graphs()
    compiled = nbcompile.compile(lambda x: (x + 1, sorted(x.shape, **arguments)), backend=graphs, dynamic=True)
    for sizes in SIZES:
        assert compiled(torch.ones(sizes))[1] == sorted(sizes, **arguments)
    assert len(graphs) == 2
