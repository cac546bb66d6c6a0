"""The captured node from which an ATen node comes."""

from __future__ import annotations

import torch

from nbcompile.aot import provenance
from nbcompile.capture.node_meta import ORIGIN, STACK


def graph_of(*nodes):
    """A graph with an input and some calls, each with meta data."""
    graph = torch.fx.Graph()
    value = graph.placeholder("x")
    for name, meta in nodes:
        value = graph.create_node("call_function", torch.sin, (value,), name=name)
        value.meta.update(meta)
    graph.output(value)
    return graph


def test_backward_nodes_have_the_origin_of_the_forward_node_with_their_number():
    """A backward node has autograd's sequence number of a forward node, and takes the origin of that node."""
    captured = graph_of(("linear", {STACK: "stack"}))
    provenance.mark_captured(captured)
    joint = graph_of(("addmm", {ORIGIN: ("linear",), "seq_nr": 7}), ("mm", {"seq_nr": 7}), ("other", {"seq_nr": 8}))
    provenance.mark_origins(joint, captured)
    by_name = {node.name: node for node in joint.nodes}
    assert by_name["mm"].meta[ORIGIN] == ("linear",) and by_name["mm"].meta[STACK] == "stack"
    assert ORIGIN not in by_name["other"].meta


def test_inputs_are_matched_by_position_where_all_are_there():
    """If all inputs are present, they are matched by position, otherwise by AOTAutograd's description."""
    captured, joint = graph_of(("sin", {})), graph_of(("sin", {}))
    provenance.mark_origins(joint, captured)
    (placeholder,) = joint.find_nodes(op="placeholder")
    assert placeholder.meta[ORIGIN] == ("x",)


def test_saved_values_keep_their_origin():
    """Saved values are inputs of the backward graph under their names in the joint graph, and keep their origin."""
    joint = graph_of(("saved", {ORIGIN: ("linear",)}))
    backward = torch.fx.Graph()
    saved, other = backward.placeholder("saved"), backward.placeholder("tangents_1")
    provenance.copy_origins_to_backward(joint, backward)
    assert saved.meta[ORIGIN] == ("linear",) and ORIGIN not in other.meta
