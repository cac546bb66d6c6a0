"""Tensors that wrap other tensors."""

from __future__ import annotations

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

import nbcompile
from tests.support.graphs import Graphs


def both(make):
    """A wrapper of a pair of tensors."""
    return TwoTensor(make(2), make(2) * 3)


PROGRAMS = {
    "operator": lambda x: x * 2 + 1,
    "inner tensor": lambda x: x.a + x.b,
    "inner tensor of a result": lambda x: (x * 2).b,
    "method of the class": lambda x: x.get_elem_a() + 1 if hasattr(x, "get_elem_a") else x.a + 1,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_whole_and_its_parts(name):
    """An operator on the wrapper, and a read of its part, are traced in one graph, with eager mode's results."""
    graphs = Graphs()
    program = PROGRAMS[name]
    found = nbcompile.compile(program, backend=graphs, fullgraph=True)(both(torch.ones))
    expected = program(both(torch.ones))
    assert type(found) is type(expected)
    assert torch.equal(found.b, expected.b) if isinstance(found, TwoTensor) else torch.equal(found, expected)
    assert len(graphs) == 1


def test_an_attribute_that_it_lacks_raises():
    """The error has eager mode's class and text."""

    def function(x):
        try:
            return x.absent
        except AttributeError as error:
            return x + 1, str(error)

    compiled = nbcompile.compile(function, backend="eager")
    assert compiled(both(torch.ones))[1] == function(both(torch.ones))[1]
