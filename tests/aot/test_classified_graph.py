"""The nodes of the joint graph, sorted by whether they depend on a tangent."""

from __future__ import annotations

import torch
from torch import fx

from nbcompile.aot.classified_graph import ClassifiedGraph, users


def joint_graph() -> fx.Graph:
    """The joint graph of a sine: the sine, and its derivative."""
    graph = fx.Graph()
    x, tangent = graph.placeholder("primals_1"), graph.placeholder("tangents_1")
    sine, cosine = graph.call_function(torch.sin, (x,)), graph.call_function(torch.cos, (x,))
    graph.output((sine, graph.call_function(torch.mul, (tangent, cosine))))
    return graph


def test_what_depends_on_a_tangent_is_backward():
    """The product depends on the tangent, so it is backward; the cosine is not a result and depends on no tangent."""
    classified = ClassifiedGraph(joint_graph(), 1)
    assert {node.name for node in classified.backward} == {"tangents_1", "mul"}
    assert {node.name for node in classified.forward} == {"primals_1", "sin"}


def test_the_output_is_no_user():
    """The output node does not count as a user: a result that no other node reads has no users."""
    (sine,) = ClassifiedGraph(joint_graph(), 1).results
    assert list(users(sine)) == []
