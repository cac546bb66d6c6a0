"""Warning filters are traced."""

from __future__ import annotations

import warnings

import torch

import nbcompile
from tests.support.oracle import one_graph


def test_a_block_with_filters_is_one_graph_and_leaves_none_behind():
    """``catch_warnings`` does not break the graph; the list of warnings is new, and the filters are restored."""

    def function(x):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            y = x.sin()
        return y, caught, len(warnings.filters)

    before = list(warnings.filters)
    y, caught, count = one_graph(function, torch.zeros(2))
    assert (y.tolist(), caught, count) == ([0.0, 0.0], [], len(before))
    assert warnings.filters == before


def test_a_filter_that_is_set_for_good_is_set():
    """The mutation of the module's list is replayed after the graph, so the interpreter uses the new filter."""

    def function(x):
        warnings.simplefilter("error", UserWarning)
        return x + 1

    with warnings.catch_warnings():
        nbcompile.compile(function, backend="eager")(torch.zeros(2))
        assert warnings.filters[0][:3] == ("error", None, UserWarning)
