"""Exposed memory: the tensors that the program may overwrite between the forward and the backward graph.

    y = (a + 1).sin()         eager saves a + 1
    forward    saves add      a is the program's: after a.mul_(2), or a step of an optimiser, a + 1 is another number

Inputs and results are exposed. The forward saves them where eager does, so that the same writes are errors, and writes
that autograd does not see (``a.data.mul_(2)``) have the same effect. Elsewhere it saves what is computed from them.

In torch: nothing; there the backward raises, or its gradient differs. Read next: nbcompile/aot/partition.py
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
        forward: the nodes that were created before autograd ran; None: by the tags of AOTAutograd.
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


def saved_in_eager_alone(
    graph: torch.fx.Graph, exposed: Iterable[torch.fx.Node], saved: Iterable[torch.fx.Node]
) -> list[torch.fx.Node]:
    """Exposed values that eager mode saves and the partition does not: autograd has to detect a write to them, too."""
    marked = {memory(node) for node in graph.nodes if node.meta.get(SAVED_IN_EAGER)}
    missing = marked - {memory(node) for node in saved} - {0}
    return list({memory(node): node for node in exposed if memory(node) in missing}.values())


def shared_with_results(forward: torch.fx.Graph, results: int) -> list[tuple[int, int]]:
    """Positions of saved tensors and of the results in whose memory they are, unless that is an input's.

    A program makes views without autograd, so that each has its own version: y, of ``return y.view(-1)``.
    """
    returned = _returned(forward)
    inputs = {memory(node) for node in forward.find_nodes(op="placeholder")}
    first = {memory(node): at for at, node in reversed(list(enumerate(returned[:results]))) if node is not None}
    return [
        (at, first[memory(node)])
        for at, node in enumerate(returned[results:])
        if node is not None and memory(node) in first.keys() - inputs - {0}
        if node is not returned[first[memory(node)]] or (node.target is not None and is_view(node))
    ]


def must_save_exposed_readers(joint: torch.fx.Graph, results: int) -> None:
    """Ban from recomputation the operators that read exposed memory which eager mode does not save."""
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
