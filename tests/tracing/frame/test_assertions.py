"""Assertions on tensors and symbols: operators of the graph, not branches."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from tests.support.graphs import Graphs


def asserting(statement):
    """A function with an assertion, compiled from a string, because pytest rewrites assertions in a test's source."""
    scope = {}
    exec(f"def f(x):\n    {statement}\n    return x + 1", scope)
    return scope["f"]


@pytest.mark.parametrize(("statement", "operators"), [
    ("assert x.sum() > 0", ["sum gt _assert_async add"]),
    ("assert x.sum() > 0, 'not positive'", ["sum gt _assert_async add"]),
    ("assert x.sum() > 0, f'not {x.shape}'", ["sum gt", "add"]),
    ("assert not x.sum() > 0 or True", ["sum gt", "add"]),
])  # fmt: skip
def test_an_assertion_on_a_tensor_is_an_operator(statement, operators):
    """An assertion is an operator; a computed message, and a condition known only at run time, break the graph."""
    graphs = Graphs()
    function = asserting(statement)
    x = torch.ones(2)
    assert nbcompile.compile(function, backend=graphs)(x).tolist() == function(x).tolist()
    assert graphs.operators == operators


def test_an_assertion_on_a_symbol_is_a_guard():
    """The assertion adds a guard on the size, and one graph serves all sizes that satisfy it."""
    graphs = Graphs()
    function = asserting("assert x.shape[0] > 1")
    compiled = nbcompile.compile(function, backend=graphs, dynamic=True)
    for size in (4, 5):
        assert compiled(torch.ones(size)).tolist() == function(torch.ones(size)).tolist()
    assert len(graphs) == 1
    with pytest.raises(AssertionError):
        compiled(torch.ones(1))


def test_a_failed_assertion_raises_as_the_graph_runs():
    """The error has the program's message."""
    with pytest.raises(RuntimeError, match="not positive"):
        nbcompile.compile(asserting("assert x.sum() > 0, 'not positive'"), backend=Graphs())(-torch.ones(2))
