"""Provenance of ATen nodes: the captured node that each one comes from.

AOTAutograd tracks it in two ways: ``from_node`` in the meta data of forward
nodes, and for backward nodes the sequence number of the autograd node, which
the forward operator has, too. Both are resolved here once, and the origin is
written to the node's meta data, where it survives the partition into forward
and backward.

    captured  linear      ->  joint  t, addmm  and, backward,  t_2, mm, mm_1, sum_1
                                                               nbc_from = ("linear",)

In torch: torch/fx/traceback.py (NodeSource). Read next: nbcompile/recording/entries.py
"""

from __future__ import annotations

import torch.fx

from nbcompile.aot.graph_calls import name_of_target
from nbcompile.capture.node_meta import CALLED, ORIGIN, STACK


def mark_captured(captured: torch.fx.Graph) -> None:
    """Set each captured node's origin to itself: tracing copies ``from_node`` only for nodes with meta data."""
    for node in captured.nodes:
        node.meta.setdefault(ORIGIN, (node.name,))


def copy_origins_to_backward(joint: torch.fx.Graph, backward: torch.fx.Graph) -> None:
    """Copy origins to the backward's placeholders: saved values have the names of the joint graph there."""
    with_origin = {node.name: node.meta for node in joint.nodes if ORIGIN in node.meta}
    for node in backward.find_nodes(op="placeholder"):
        for key in (ORIGIN, STACK):
            if key in with_origin.get(node.name, ()):
                node.meta.setdefault(key, with_origin[node.name][key])


def mark_origins(graph: torch.fx.Graph, captured: torch.fx.Graph) -> None:
    """Write the origin and the user's stack to the meta data of every node of ``graph``."""
    names = {node.name: node for node in captured.nodes}
    inputs = _input_origins(graph, captured)
    #     forward    addmm     seq_nr 7, from_node linear      by_sequence[7] = linear
    #     backward   mm, mm_1  seq_nr 7, no from_node          origin: linear
    by_sequence: dict[int, str] = {}
    for node in graph.nodes:
        origin = inputs.get(node.name) or _recorded_origin(node, names) or _forward_origin(node, names)
        if origin is None:
            # A backward node: the forward operators with its number come first in the graph.
            origin = by_sequence.get(node.meta.get("seq_nr", -1))
        elif "seq_nr" in node.meta:
            by_sequence.setdefault(node.meta["seq_nr"], origin)
        if origin is not None:
            node.meta[ORIGIN] = (origin,)
            node.meta[CALLED] = name_of_target(names[origin])
            if STACK in names[origin].meta:
                node.meta[STACK] = names[origin].meta[STACK]


def _input_origins(graph: torch.fx.Graph, captured: torch.fx.Graph) -> dict[str, str]:
    """Captured placeholder of each placeholder: by AOTAutograd's description, else by position."""
    names = dict(enumerate(node.name for node in captured.find_nodes(op="placeholder")))
    placeholders = graph.find_nodes(op="placeholder")
    origins = {}
    for position, node in enumerate(placeholders):
        description = node.meta.get("desc", position if len(placeholders) == len(names) else None)
        index = getattr(description, "idx", description)
        if isinstance(index, int) and index in names:
            origins[node.name] = names[index]
    return origins


def _recorded_origin(node: torch.fx.Node, names: dict[str, torch.fx.Node]) -> str | None:
    """The origin that the tracer wrote to the node."""
    known = node.meta.get(ORIGIN, ())
    return known[0] if len(known) == 1 and known[0] in names else None


def _forward_origin(node: torch.fx.Node, names: dict[str, torch.fx.Node]) -> str | None:
    """The node at the root of the ``from_node`` chain, if it is one of the captured graph."""
    for source in node.meta.get("from_node", ()):
        # Each transform of the graph adds a link: the last one is the node as it was captured.
        while source.from_node:
            source = source.from_node[0]  # noqa: PLW2901  following the chain
        if source.name in names:
            return str(source.name)
    return None
