"""Exceptions with which the tracer reports the behaviour of a traced program."""

import pytest
import torch
from torch._dynamo.comptime import comptime

import nbcompile
from tests.support.answers import check
from tests.support.graphs import Graphs


def test_what_cannot_be_hashed_is_the_programs_own_error():
    """A list as a key raises a TypeError with Python's text in the program, which can catch it."""
    check("{[1]: 2}", "{1: 2}[[1]]", "[1] in {1}", "{(1, [2])}")


def test_an_error_of_a_comptime_function_is_raised_as_it_is():
    """The function's own exception is raised, not a graph break."""

    def f(x):
        comptime(lambda ctx: int("no number"))
        return x + 1

    with pytest.raises(ValueError, match="no number"):
        nbcompile.compile(f, backend="eager")(torch.ones(2))


def test_a_trace_starts_over_and_breaks_earlier():
    """A tensor of the graph that requires grad later breaks the graph earlier, with eager mode's results."""

    def f(x):
        y = x.sin()
        y = y.detach().requires_grad_()
        (y * y).sum().backward()
        return y.grad + 1

    graphs = Graphs()
    x = torch.ones(3)
    assert torch.equal(nbcompile.compile(f, backend=graphs)(x), f(x))
    assert graphs.operators[0].startswith("sin")
    assert not any("backward" in names for names in graphs.operators)
