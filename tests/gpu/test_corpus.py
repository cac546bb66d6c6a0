"""The 46 graphs that the generator is judged by: generated as a whole, equal to eager mode, without faults or spills."""

from __future__ import annotations

import pytest

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

from tests.gpu import corpus
from tests.gpu.graphs import GRAPHS

QUICK = ("argmax", "softmax_1k", "rms_norm_bf16", "adam_foreach", "huge_rows", "dropout")
"""Graphs of ``make test``: each had a fault of its own once, or is of a kind of its own."""
BOUND, MEMORY_BOUND = 3.0, 1.3
"""Predicted over least time, at most; the second for pointwise graphs, transposes, sums and rows."""


def expect_good(name):
    """Assert that no kernel is rejected, faults, differs or spills, and that none is far from the least time."""
    rows = corpus.graph(name)
    assert rows
    for row in rows:
        assert (row.rejected, row.fault, row.differs) == ("", "", "")
        assert all(launch.built.spilled_bytes == 0 for launch in row.launches)
        assert row.ratio <= (MEMORY_BOUND if GRAPHS[name].is_memory_bound else BOUND)
        assert bool(row.launches) == (bool(row.kernels) and not GRAPHS[name].is_meta)


@pytest.mark.parametrize("name", QUICK)
def test_a_graph_of_the_corpus(name):
    """Four of the graphs, one of each kind, satisfy all conditions."""
    expect_good(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in GRAPHS if name not in QUICK])
def test_every_graph_of_the_corpus(name):
    """All other graphs satisfy the conditions (``make sweep``)."""
    expect_good(name)


def test_there_are_46():
    """The corpus has 46 graphs."""
    assert len(GRAPHS) == 46
