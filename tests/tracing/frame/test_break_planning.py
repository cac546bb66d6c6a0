"""The end of a graph and the continuation of the frame, for each position of the graph break in the program."""

from __future__ import annotations

import contextlib

import pytest
import torch
import torch._dynamo.testing

import nbcompile
from tests.support.graphs import Graphs


def stop(x):
    torch._dynamo.graph_break()
    return x


def in_a_line(x):
    y = x.sin()
    torch._dynamo.graph_break()
    return y.cos()


def in_a_loop(x):
    y = x.sin()
    for _ in range(2):
        y = y.cos()
        torch._dynamo.graph_break()
    return y


def in_a_try(x):
    y = x.sin()
    try:
        torch._dynamo.graph_break()
        y = y.cos()
    except ValueError:
        pass
    return y


def in_a_comprehension(x):
    y = x.sin()
    parts = [stop(y) for _ in range(2)]
    return parts[0] + parts[1]


def in_a_grad_mode(x):
    y = x.sin()
    with torch.no_grad():
        torch._dynamo.graph_break()
        y = y.cos()
    return y


def in_a_generic_context(x):
    y = x.sin()
    with contextlib.nullcontext(), contextlib.suppress(ValueError):
        y = y.cos()
        torch._dynamo.graph_break()
    return y


PROGRAMS = [in_a_line, in_a_loop, in_a_try, in_a_comprehension, in_a_grad_mode, in_a_generic_context]


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_as_many_graphs_as_torch(function):
    """Results equal eager mode's, and the number of graphs is the same as with torch.compile."""
    x = torch.randn(3)
    counter = torch._dynamo.testing.CompileCounter()
    torch._dynamo.reset()
    torch.compile(function, backend=counter)(x)
    captured = Graphs()

    nbcompile.reset()
    assert torch.equal(nbcompile.compile(function, backend=captured)(x), function(x))
    assert len(captured) == counter.frame_count
