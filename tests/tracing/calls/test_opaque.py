"""Functions that are one node of the graph, with pytrees as arguments and results."""

from __future__ import annotations

import torch

import nbcompile
from tests.support.graphs import Graphs


@nbcompile.nonstrict_trace
def split(pair, scale):
    return {"sum": pair["a"] + pair["b"], "scaled": (pair["a"] * scale, 3)}


def test_a_call_is_one_node_with_trees_of_values():
    """The function is not traced; its arguments are flattened, and its result is rebuilt as a pytree."""
    graphs = Graphs()
    compiled = nbcompile.compile(lambda x: split({"a": x, "b": x * 2}, 2.0), backend=graphs, fullgraph=True)
    x = torch.ones(2)
    found = compiled(x)
    assert torch.equal(found["sum"], x * 3)
    assert torch.equal(found["scaled"][0], x * 2)
    assert found["scaled"][1] == 3
    assert len(graphs.operators[0].split()) == 2  # x * 2, and the call
