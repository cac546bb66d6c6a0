"""Numbers that are nodes of the graph."""

from __future__ import annotations

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
