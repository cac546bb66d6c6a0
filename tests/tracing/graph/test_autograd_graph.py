"""The autograd nodes behind tensors."""

from __future__ import annotations

import torch

from nbcompile.tracing.graph.autograd_graph import reachable


def test_each_node_is_met_once_and_none_behind_a_stop():
    """A node on two paths is visited once; the search does not continue behind a node of ``stop_at``."""
    x = torch.ones(2, requires_grad=True)
    y = x.sin()
    z = y * y
    nodes = list(reachable([z, y]))
    assert len(nodes) == len(set(nodes)) == 3
    assert [node.name() for node in reachable([z], stop_at=[y.grad_fn])] == ["MulBackward0"]
    assert list(reachable([x])) == []
