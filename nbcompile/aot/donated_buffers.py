"""Donated buffers: tensors saved for the backward graph that have no other user, so that it may free them.

    forward    y = sin(x) @ w        returns y | saves x, w, sin(x)
    backward   sin(x) shares its memory with no input, result or gradient: it is donated

Such an input of the backward graph is freed after its last use, unless the graph is retained
(``retain_graph=True``), as autograd is then an owner as well.

In torch: collect_bw_donated_buffer_idxs in torch/_functorch/_aot_autograd/graph_compile.py. Read next:
nbcompile/scheduling/memory.py
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from nbcompile.capture.node_meta import DONATED


def mark(forward: torch.fx.Graph, backward: torch.fx.Graph, results: int) -> bool:
    """Mark the donated inputs of a backward graph; return whether there are any.

    Args:
        forward: Its output lists the results, then what it saves.
        backward: Its placeholders have the names of the saved values.
        results: Number of results.
    """
    returned: Any = forward.output_node().args[0]
    gradients: Any = backward.output_node().args[0]
    saved = {node.name for node in returned[results:] if isinstance(node, torch.fx.Node)}
    known = {_memory(node) for node in (*forward.find_nodes(op="placeholder"), *returned[:results], *gradients)}
    donated = [
        node
        for node in backward.find_nodes(op="placeholder")
        if node.name in saved and _memory(node) not in {*known, None}
    ]
    for node in donated:
        node.meta[DONATED] = True
    return bool(donated)


def _memory(node: object) -> int | None:
    """Address of the storage of a node's fake tensor, equal for views of one memory; None: it has none."""
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    return value.untyped_storage()._cdata
