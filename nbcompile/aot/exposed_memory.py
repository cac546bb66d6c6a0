"""Exposed memory: what the program may overwrite between the forward and the backward graph.

    y = (a + 1).sin()         eager saves a + 1
    forward    saves add      a is the program's: after a.mul_(2), or a step of an optimiser, a + 1 is another number

Inputs and results are exposed. The forward saves them where eager does, so that the same writes are errors, and writes
that autograd does not see (``a.data.mul_(2)``) have the same effect. Elsewhere it saves what is computed from them.

In torch: nothing; there the backward raises, or its gradient is of other numbers. Read next: nbcompile/aot/partition.py
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import torch
import torch.fx
from torch.utils.checkpoint import CheckpointPolicy

from nbcompile.aot.saved_views import is_view
from nbcompile.capture.node_meta import SAVED_IN_EAGER

DERIVATIVE = frozenset({"is_backward", "must_be_in_backward"})
"""AOTAutograd's tags of operators that autograd ran."""


def mark_saved(joint: torch.fx.Graph, results: int, forward: Collection[torch.fx.Node] | None = None) -> None:
    """Mark the values whose memory eager mode saves: an operator of the derivative reads it, or it is a gradient.

    Passes may let the derivative use other values than autograd did, so this comes before them.

    Args:
        joint: a joint graph as it was traced.
        results: number of results of the forward pass.
        forward: what was there before autograd ran; None: as AOTAutograd has tagged the nodes.
    """
    nodes = [node for node in joint.nodes if node.op != "output"]
    if forward is None:
        forward = {node for node in nodes if node.meta.get("partitioner_tag") not in DERIVATIVE}
    readers = [node for node in nodes if node not in forward]
    read = {operand for reader in readers for operand in reader.all_input_nodes}.union(_returned(joint)[results:])
    saved = {memory(node) for node in read if node is not None and node in forward}
    for node in forward:
        if memory(node) in saved:
            node.meta[SAVED_IN_EAGER] = True


def unsaved(joint: torch.fx.Graph, results: Iterable[torch.fx.Node]) -> frozenset[int]:
    """Exposed memory that eager mode does not save."""
    exposed = {memory(node) for node in (*joint.find_nodes(op="placeholder"), *results)}
    saved = {memory(node) for node in joint.nodes if node.meta.get(SAVED_IN_EAGER)}
    return frozenset(exposed - saved - {0})


def save_what_reads(joint: torch.fx.Graph, results: int) -> None:
    """Forbid torch's partitioner to run operators again that read exposed memory which eager mode does not save."""
    unread = unsaved(joint, (node for node in _returned(joint)[:results] if isinstance(node, torch.fx.Node)))
    for node in joint.nodes:
        reads = node.op == "call_function" and any(memory(operand) in unread for operand in node.all_input_nodes)
        if reads and not is_view(node) and "recompute" not in node.meta:
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE


def _returned(joint: torch.fx.Graph) -> Sequence[torch.fx.Node | None]:
    (returned,) = joint.output_node().args
    return tuple(returned)  # type: ignore[arg-type]


def memory(node: torch.fx.Node) -> int:
    """Address of the storage of a node's fake tensor, equal for views of one memory; 0: it has none."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return 0
    try:
        return int(value.untyped_storage()._cdata)
    except NotImplementedError:
        return 0  # a wrapper without a storage
