"""Min-cut partition of a joint graph: which values the forward saves, and which the backward recomputes.

    joint       relu = relu(x @ w), sum | gt = relu > 0, where, mm        the backward begins at |
    save gt     one byte per element is written, and read again
    save relu   it is written in any case, because a matrix product reads it: the backward recomputes ``gt``

Cheap values may be recomputed from saved ones. The saved values are a minimum cut between the inputs and the backward
graph: each value is an edge whose capacity is the bytes that saving it writes and reads. ``networkx`` finds the cut.

                  capacity: bytes            infinite
    source --> x.in ------------> x.out --> relu.in ------------> relu.out --> where (backward) --> sink
      |                                       ^
      +---------------------------------------+      infinite: banned from recomputation (a placeholder, a product ...)

An edge ``value.in -> value.out`` that the cut crosses is a saved value. Whatever is on the sink's side of the cut is
recomputed. A value is banned from recomputation if that would be expensive (``_is_expensive``), if the backward reads
it from memory anyway (``_is_materialised_in_backward``), if it would keep early values alive (``_banned_residuals``),
or if the chain before it is too long (``_banned_chain_ends``). An input that eager mode does not save is not saved
either (``exposed_memory.py``).

In torch: torch/_functorch/partitioners.py (whose import brings in Inductor and torch's tracer, 1.5 s).
Read next: nbcompile/aot/runtime_wrapper.py
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import torch
import torch.fx

from nbcompile import torch_internals
from nbcompile.aot import exposed_memory, saved_views
from nbcompile.support import lazy_import

if TYPE_CHECKING:
    import networkx as nx
else:
    nx = lazy_import.module("networkx")  # 0.1 s, only for graphs with gradients
from nbcompile.aot.classified_graph import MAX_RECOMPUTED_CHAIN, ClassifiedGraph, is_size, users
from nbcompile.aot.saved_views import is_view

aten = torch.ops.aten

# In addition to pointwise operators and views. All are recomputed only if they read little (REDUCTION_RATIO).
RECOMPUTABLE_OPS = frozenset(
    {
        aten.sum, aten.mean, aten.amax, aten.amin, aten.var, aten.var_mean, aten.std, aten.any, aten.argmax,
        aten.clone, aten._to_copy, aten.lift_fresh_copy, aten.copy, aten.triu, aten.tril, aten.index, aten.gather,
        aten.full, aten.full_like, aten.zeros, aten.zeros_like, aten.ones, aten.ones_like, aten.new_zeros,
        aten.new_full, aten.new_ones, aten.empty, aten.empty_like, aten.arange, aten.scalar_tensor,
        aten.constant_pad_nd, aten.flip, aten.repeat,
    }
)  # fmt: skip
CONCATENATIONS = frozenset({aten.cat, aten.stack})
"""Operators that fuse with the producers of their inputs, but are not recomputed themselves."""
REDUCTION_RATIO = 4
"""A value is not recomputed if its operands have more than this many times its bytes."""
DISTANCE_FACTOR = 1.1
"""Cost factor per operator of distance to the backward: of values of equal size the nearest one is saved."""

Partition = tuple[torch.fx.Graph, torch.fx.Graph, int, int]
"""Forward graph, backward graph, number of saved tensors and of saved sizes."""


def partition_joint_graph(
    joint: torch.fx.Graph, outputs: int, static_inputs: Collection[int] | None
) -> Partition | None:
    """Partition a joint graph into a forward and a backward graph.

    Args:
        joint: its inputs are named ``primals_...`` and ``tangents_...``; its output lists the results of the forward
            pass, then the gradients (None where there is none).
        outputs: number of results of the forward pass.
        static_inputs: positions of the inputs that stay alive in any case (parameters), so that saving them is free.
            None: recompute nothing, and save what eager saves.

    Returns:
        ``forward(primals) -> (results, saved, sizes)`` and ``backward(sizes, saved, tangents) -> gradients``, where
        the sizes are the symbols among the primals; None if a value that the backward needs can neither be saved nor
        recomputed.
    """
    graph = ClassifiedGraph(joint, outputs)
    saved = (
        graph.saved_without_recompute()
        if static_inputs is None
        else _min_cut(graph, {graph.inputs[at] for at in static_inputs})
    )
    # A partition with a saved value that is not a tensor (a tuple of results, whose getitems were banned as well) is
    # discarded: autograd saves only tensors for the backward, so AOTAutograd partitions the graph instead.
    if saved is None or not all(isinstance(node.meta.get("val"), torch.Tensor) for node in saved):
        return None
    saved = saved_views.with_inputs(saved)
    saved += exposed_memory.saved_in_eager_alone(joint, (*graph.inputs, *graph.results), saved)
    sizes = [node for node in graph.inputs if is_size(node)]
    forward = _extract(graph.inputs, [*graph.results, *saved, *sizes], graph.nodes)
    # Recomputed values are in neither list: ``_extract`` inserts each right before its first use, which minimises its
    # live range.
    derived = [node for node in graph.nodes if node in graph.backward]
    backward = _extract([*sizes, *saved, *graph.tangents], graph.gradients, derived)
    return forward, backward, len(saved), len(sizes)


def _min_cut(graph: ClassifiedGraph, static_nodes: Collection[torch.fx.Node]) -> list[torch.fx.Node] | None:
    """Return the values to save: the edges ``(node, "in") -> (node, "out")`` that a minimum cut crosses.

        source ──∞──> banned.in ──cost──> banned.out ──∞──> x.in ──cost──> x.out ──∞──> backward node ──∞──> sink

    The backward graph computes the values on the sink's side. The cut crosses each path at the cheapest value: that
    value is saved, and the values between it and the backward node are recomputed.
    """
    network = nx.DiGraph()
    network.add_nodes_from(("source", "sink"))
    unsaved = exposed_memory.unsaved(graph.joint, graph.results)
    for node in graph.tensors:
        if node in graph.backward:
            # The backward computes this node: its operands are on the sink's side, or are saved.
            network.add_edge((node, "in"), "sink", capacity=math.inf)
            continue
        cost = 0 if node in static_nodes else _cost(node, graph)
        if exposed_memory.memory(node) in unsaved:
            cost = math.inf
        network.add_edge((node, "in"), (node, "out"), capacity=cost)
        # An infinite edge cannot be cut: the cut crosses the value's own edge, not the edges to its users.
        network.add_edges_from((((node, "out"), (user, "in")) for user in users(node)), capacity=math.inf)
        if node in graph.gradients_without_tangent:
            network.add_edge((node, "out"), "sink", capacity=math.inf)
    # A banned node is on the source's side: it is computed in the forward, and saved if the backward needs it.
    for node in _find_banned(graph):
        network.add_edge("source", (node, "in"), capacity=math.inf)
    try:
        _, (source_side, _) = nx.minimum_cut(network, "source", "sink")
    except nx.NetworkXUnbounded:
        return None  # a path of infinite edges: the backward needs a banned value that cannot be saved (no tensor)
    return [node for node in graph.tensors if (node, "in") in source_side and (node, "out") not in source_side]


# --- cost of saving a value -------------------------------------------------------------------------------------------


def _cost(node: torch.fx.Node, graph: ClassifiedGraph) -> float:
    """Bytes that are moved if a node is saved: one read, and one write unless the forward writes it anyway.

    The cost grows with the distance to the backward.
    """
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return math.inf  # no tensor: the getitems of a tuple of results are saved instead
    size = _bytes(value) * DISTANCE_FACTOR ** max(1, min(graph.distance[node], MAX_RECOMPUTED_CHAIN))
    # The forward stores the value anyway if a user cannot be in the value's kernel: saving it then costs only the read
    # in the backward.
    in_memory = node.op == "placeholder" or not all(_can_fuse(node, user) for user in node.users)
    return size if in_memory else 2 * size


def _bytes(value: object) -> int:
    if not isinstance(value, torch.Tensor):
        return 0
    return torch_internals.example_of(value.numel()) * value.element_size()


# --- nodes that are banned from recomputation -------------------------------------------------------------------------


def _find_banned(graph: ClassifiedGraph) -> set[torch.fx.Node]:
    banned = {
        node
        for node in graph.tensors
        if node.op == "placeholder"
        or (
            node in graph.forward
            and not is_view(node)
            and (_is_expensive(node) or _is_materialised_in_backward(node, graph))
        )
    }
    banned -= set(graph.tangents)  # they are inputs of the backward
    return banned | _banned_residuals(graph, banned) | _banned_chain_ends(graph, banned)


def _is_expensive(node: torch.fx.Node) -> bool:
    if node.target is operator.getitem:
        return False
    bytes_read = sum(_bytes(each.meta.get("val")) for each in node.all_input_nodes)
    return not _is_recomputable(node) or REDUCTION_RATIO * _bytes(node.meta.get("val")) < bytes_read


def _is_recomputable(node: torch.fx.Node) -> bool:
    if node.target is operator.getitem or is_view(node):
        return True
    target = node.target
    # A recomputation would draw other numbers: the generator's state changes between forward and backward.
    if not isinstance(target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded in target.tags:
        return False
    return torch.Tag.pointwise in target.tags or target.overloadpacket in RECOMPUTABLE_OPS


def _can_fuse(producer: torch.fx.Node, user: torch.fx.Node) -> bool:
    """Return whether both nodes can be in one kernel, so that the user does not read the value from memory."""
    if user.op == "output":
        return False
    joins = isinstance(user.target, torch._ops.OpOverload) and user.target.overloadpacket in CONCATENATIONS
    return joins or (_is_fusible(producer) and _is_fusible(user))


def _is_fusible(node: torch.fx.Node) -> bool:
    is_random = isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags
    return node.op == "call_function" and (is_random or _is_recomputable(node))


def _is_materialised_in_backward(node: torch.fx.Node, graph: ClassifiedGraph) -> bool:
    """Return whether a kernel of the backward reads the node, perhaps through views, from memory.

    A recomputed node would be stored in the backward: saving it also costs one store, but no computation.
    """
    worklist = [node]
    while worklist:
        value = worklist.pop()
        for user in users(value):
            if user not in graph.forward and not _can_fuse(value, user):
                return True
            if is_view(user):
                worklist.append(user)
    return False


def _banned_residuals(graph: ClassifiedGraph, banned: set[torch.fx.Node]) -> set[torch.fx.Node]:
    """Residual additions: nodes that combine an early value with a later one, as ``x + f(x)`` with a product in ``f``.

        x1 = x0 + f(x0)      x2 = x1 + f(x1)      x3 = x2 + f(x2)

    Recomputing x3 would keep x2 and f(x2) alive, and recomputing x2 in turn x1 and f(x1): the whole residual stream.
    An edge is a residual edge if its user comes later than the first operator that materialises the value.
    """
    first_materialised: dict[torch.fx.Node, float] = {}
    """Position of the first operator that reads a value, or a value that is fused with it, from memory."""
    # In reverse order, so that the positions of a node's users are known.
    for node in reversed(graph.nodes):
        later_users = [user for user in users(node) if user in graph.forward]
        first_materialised[node] = min(
            (first_materialised[user] if _can_fuse(node, user) else graph.positions[user] for user in later_users),
            default=math.inf,
        )
    return {
        user
        for node in graph.nodes
        if node in graph.forward
        for user in users(node)
        if user in graph.forward and user not in banned and not is_view(user)
        if _can_fuse(node, user) and graph.positions[user] > first_materialised[node]
    }


def _banned_chain_ends(graph: ClassifiedGraph, banned: set[torch.fx.Node]) -> set[torch.fx.Node]:
    """Every ``MAX_RECOMPUTED_CHAIN``-th value of a recomputable chain, so that the backward stays short."""
    length: dict[torch.fx.Node, int] = {}
    banned_ends = set()
    for node in graph.nodes:
        lengths = (length[each] + 1 for each in node.all_input_nodes if each not in banned and _can_fuse(each, node))
        length[node] = max(lengths, default=0)
        if length[node] > MAX_RECOMPUTED_CHAIN and node in graph.forward and not is_view(node):
            banned_ends.add(node)  # saved: a new chain begins after it
            length[node] = 0
    return banned_ends


# --- the two graphs ---------------------------------------------------------------------------------------------------


def _extract(
    inputs: Sequence[torch.fx.Node], outputs: Sequence[torch.fx.Node | None], order: Sequence[torch.fx.Node]
) -> torch.fx.Graph:
    """Extract the graph from some values to others: ``order`` in this order, other nodes before their first use."""
    extracted = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in inputs:
        copies[node] = extracted.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    results = [node for node in outputs if node is not None]
    assertions = [node for node in order if node.target is torch.ops.aten._assert_async.msg]  # nothing uses them
    needed = _ancestors([*results, *assertions], copies.keys())
    for node in (*(each for each in order if each in needed), *results):
        _copy(node, extracted, copies)
    extracted.output(tuple(node and copies[node] for node in outputs))
    return extracted


def _ancestors(results: Iterable[torch.fx.Node], inputs: Collection[torch.fx.Node]) -> set[torch.fx.Node]:
    ancestors: set[torch.fx.Node] = set()
    worklist = list(results)
    while worklist:
        node = worklist.pop()
        if node not in ancestors and node not in inputs:
            ancestors.add(node)
            worklist.extend(node.all_input_nodes)
    return ancestors


def _copy(root: torch.fx.Node, graph: torch.fx.Graph, copies: dict[torch.fx.Node, torch.fx.Node]) -> None:
    # An explicit stack, since a chain of recomputed values may be longer than Python's recursion limit. A node with two
    # users is pushed twice, and copied once.
    worklist = [] if root in copies else [root]  # a gradient that the forward computed needs nothing else
    while worklist:
        node = worklist[-1]
        missing = [each for each in node.all_input_nodes if each not in copies]
        worklist.extend(missing)
        if not missing:
            worklist.pop()
            if node not in copies:
                copies[node] = graph.node_copy(node, copies.__getitem__)
