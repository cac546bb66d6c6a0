"""Exceptions by which the tracer reports what a traced program does."""

import pytest
import torch
from torch._dynamo.comptime import comptime

import nbcompile
from tests.support.answers import check
from tests.support.graphs import Graphs


def test_what_cannot_be_hashed_is_the_programs_own_error():
    """A list as a key or a member raises TypeError in the program, with Python's words, and can be caught there."""
    check("{[1]: 2}", "{1: 2}[[1]]", "[1] in {1}", "{(1, [2])}")


def test_an_error_of_a_comptime_function_is_raised_as_it_is():
    """It is the function's own exception, by class and words, and no graph break."""

    def f(x):
        comptime(lambda ctx: int("no number"))
        return x + 1

    with pytest.raises(ValueError, match="no number"):
        nbcompile.compile(f, backend="eager")(torch.ones(2))


def test_a_trace_starts_over_and_breaks_earlier():
    """A tensor of the graph asks for a gradient after the fact: the graph ends before it, with eager's results."""

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
