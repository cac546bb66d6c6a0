"""Calls of annotations inside compiled functions: graph breaks, skipped frames, and sizes that become constants."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from nbcompile import annotations, errors
from tests.support.graphs import Graphs, compiled

pytestmark = pytest.mark.usefixtures("nothing_compiled")
X = torch.linspace(-1, 1, 4)


def test_a_frame_that_is_skipped_runs_as_python():
    """``skip_frame`` makes Python run the whole frame: the operator before the call is not compiled either."""

    def f(x):
        y = x.sin()
        torch._dynamo.skip_frame()
        return y.cos()

    found, graphs = compiled(f, X)
    assert torch.equal(found, X.sin().cos()) and graphs == []


def test_a_size_that_is_marked_static_is_a_constant():
    """A size that ``mark_static`` marks is a constant, also with ``dynamic=True``: another size causes a recompile."""

    def f(x):
        torch._dynamo.mark_static(x, 0)
        return x * x.shape[0]

    graphs = Graphs()
    function = nbcompile.compile(f, backend=graphs, dynamic=True)
    for size in (4, 5):
        assert torch.equal(function(torch.ones(size)), torch.ones(size) * size)
    assert len(graphs) == 2


@pytest.mark.parametrize("name", ["allow_in_graph", "disallow_in_graph", "forbid_in_graph", "assume_constant_result"])
def test_a_mark_holds_for_the_process(name):
    """A call of an annotation breaks the graph, because its mark holds for the whole process."""
    with pytest.raises(errors.Unsupported, match=name):
        compiled(lambda x: (x + 1, getattr(annotations, name)(torch.sin)), X, fullgraph=True)
