"""Cut a joint graph in two: what the forward graph keeps, and what the backward graph computes again.

    joint      relu = relu(x @ w), sum | gt = relu > 0, where, mm        | is where the derivative begins
    keep gt    a byte per element is written, and read again
    keep relu  it is written anyway, because a product reads it: the backward graph computes ``gt`` again

What is cheap may be computed again, from what is kept. Which values are kept is a minimum cut between the inputs and
the derivative: each value costs the bytes that it takes to write and read it, and the cheapest set that the derivative
can be computed from is the answer. ``networkx`` finds it.

    source -> inputs, products, random numbers     (never computed again)
    value.in -> value.out                          (costs its bytes)
    values of the derivative -> sink

In torch: torch/_functorch/partitioners.py (whose import brings in Inductor and torch's tracer, 1.5 s).
Read next: nbcompile/aot/joint.py
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
import torch.fx

from nbcompile import later, torch_internals

if TYPE_CHECKING:
    import networkx as nx
else:
    nx = later.module("networkx")  # 0.1 s, for graphs with gradients alone

aten = torch.ops.aten

# Beside pointwise operators and views. A reduction is computed again only if it reads little (SMALLER).
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
"""What is read where it is made, although the operator itself is not computed again."""
REDUCTION_RATIO = 4
"""A result that is this many times smaller than what it was made of is kept."""
DISTANCE_FACTOR = 1.1
"""Of values of one size the one nearer to the derivative is kept: a step further away costs this factor more."""
MAX_RECOMPUTED_CHAIN = 100
"""Operators. No chain that is computed again is longer."""

Partition = tuple[torch.fx.Graph, torch.fx.Graph, int, int]
"""Forward graph, backward graph, and how many results of the first are for the second: tensors, and sizes."""


def partition_joint_graph(
    joint: torch.fx.Graph, outputs: int, static_inputs: Collection[int] | None
) -> Partition | None:
    """The forward and the backward graph.

    Args:
        joint: its inputs are named ``primals_...`` and ``tangents_...``; its output lists the results of the forward
            pass, then the gradients (None where there is none).
        outputs: how many results the forward pass has.
        lasting: the inputs that their owner keeps, so that keeping them costs nothing. None: do not choose by a
            minimum cut; what the results do not need is left to the derivative, as in eager.

    Returns:
        ``forward(primals) -> (results, kept, sizes)`` and ``backward(sizes, kept, tangents) -> gradients``, where the
        sizes are the symbols among the primals; None if a value that the derivative needs can neither be kept nor
        computed again.
    """
    graph = JointGraph(joint, outputs)
    saved = (
        graph.saved_without_recompute()
        if static_inputs is None
        else _min_cut(graph, {graph.inputs[at] for at in static_inputs})
    )
    if saved is None or not all(isinstance(node.meta.get("val"), torch.Tensor) for node in saved):
        return None
    sizes = [node for node in graph.inputs if is_size(node)]
    forward = _extract(graph.inputs, [*graph.results, *saved, *sizes], graph.nodes)
    derived = [node for node in graph.nodes if node in graph.backward]
    backward = _extract([*sizes, *saved, *graph.tangents], graph.gradients, derived)
    return forward, backward, len(saved), len(sizes)


def is_size(node: torch.fx.Node) -> bool:
    """Whether it is a size: those are computed wherever they are needed, from the symbols."""
    return isinstance(node.meta.get("val"), torch.SymInt)


@dataclass(frozen=True)
class JointGraph:
    """Which nodes of a joint graph are forward, and which can only be computed once the tangents are there."""

    joint: torch.fx.Graph
    outputs: int

    @cached_property
    def _returned(self) -> Sequence[torch.fx.Node | None]:
        (returned,) = self.joint.output_node().args
        return tuple(returned)  # type: ignore[arg-type]

    @property
    def results(self) -> Sequence[torch.fx.Node]:
        """Of the forward pass."""
        return self._returned[: self.outputs]  # type: ignore[return-value]

    @property
    def gradients(self) -> Sequence[torch.fx.Node | None]:
        """One per primal; None where there is none."""
        return self._returned[self.outputs :]

    @cached_property
    def nodes(self) -> Sequence[torch.fx.Node]:
        """All but the output, in order."""
        return [node for node in self.joint.nodes if node.op != "output"]

    @cached_property
    def tensors(self) -> Sequence[torch.fx.Node]:
        """Without the sizes."""
        return [node for node in self.nodes if not is_size(node)]

    @cached_property
    def positions(self) -> dict[torch.fx.Node, int]:
        """The position of each."""
        return {node: position for position, node in enumerate(self.nodes)}

    @cached_property
    def inputs(self) -> Sequence[torch.fx.Node]:
        """The primals."""
        return [node for node in self.nodes if node.op == "placeholder" and not node.name.startswith("tangents_")]

    @cached_property
    def tangents(self) -> Sequence[torch.fx.Node]:
        """What comes from the derivative of whatever follows."""
        return [node for node in self.nodes if node.op == "placeholder" and node.name.startswith("tangents_")]

    @cached_property
    def backward(self) -> frozenset[torch.fx.Node]:
        """What is computed from a tangent."""
        found = set(self.tangents)
        for node in self.nodes:
            if not found.isdisjoint(node.all_input_nodes):
                found.add(node)
        return frozenset(found)

    @cached_property
    def forward(self) -> frozenset[torch.fx.Node]:
        """The inputs, what the results are computed from, and whatever else is made by the way."""
        found = {*self.results, *self.inputs}
        for node in reversed(self.nodes):
            if node in found:
                found.update(node.all_input_nodes)
        found.update(each for each in self.nodes if each.target is operator.getitem and each.args[0] in found)
        return frozenset(found)

    @cached_property
    def gradients_without_tangent(self) -> frozenset[torch.fx.Node]:
        """What the gradients are, or are computed from, without a tangent: as it is, on the way to the derivative."""
        return frozenset(node for node in self.gradients if node is not None and node not in self.backward)

    @cached_property
    def distance(self) -> dict[torch.fx.Node, int]:
        """How many operators lie between each and the derivative."""
        steps: dict[torch.fx.Node, int] = {}
        for node in reversed(self.nodes):
            after = (steps[user] + 1 for user in node.users if user in steps)
            steps[node] = 0 if node not in self.forward else min(after, default=MAX_RECOMPUTED_CHAIN)
        return steps

    def saved_without_recompute(self) -> list[torch.fx.Node]:
        """What is read after the forward pass, if nothing of it is computed again."""
        return [
            node
            for node in self.nodes
            if node in self.forward and not is_size(node)
            if node in self.gradients_without_tangent or any(user not in self.forward for user in _users(node))
        ]


def _min_cut(graph: JointGraph, static_nodes: Collection[torch.fx.Node]) -> list[torch.fx.Node] | None:
    network = nx.DiGraph()
    network.add_nodes_from(("source", "sink"))
    for node in graph.tensors:
        if node in graph.backward:
            network.add_edge((node, "in"), "sink", capacity=math.inf)
            continue
        network.add_edge((node, "in"), (node, "out"), capacity=0 if node in static_nodes else _cost(node, graph))
        network.add_edges_from((((node, "out"), (user, "in")) for user in _users(node)), capacity=math.inf)
        if node in graph.gradients_without_tangent:
            network.add_edge((node, "out"), "sink", capacity=math.inf)
    for node in _find_banned(graph):
        network.add_edge("source", (node, "in"), capacity=math.inf)
    try:
        _, (source_side, _) = nx.minimum_cut(network, "source", "sink")
    except nx.NetworkXUnbounded:
        return None
    return [node for node in graph.tensors if (node, "in") in source_side and (node, "out") not in source_side]


def _users(node: torch.fx.Node) -> Iterable[torch.fx.Node]:
    return (user for user in node.users if user.op != "output")


# --- what it costs to keep a value ------------------------------------------------------------------------------------


def _cost(node: torch.fx.Node, graph: JointGraph) -> float:
    """Bytes, of which those are dearer that are further from the derivative, or not in memory anyway."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return math.inf
    size = _bytes(value) * DISTANCE_FACTOR ** max(1, min(graph.distance[node], MAX_RECOMPUTED_CHAIN))
    in_memory = node.op == "placeholder" or not all(_can_fuse(node, user) for user in node.users)
    return size if in_memory else 2 * size


def _bytes(value: object) -> int:
    if not isinstance(value, torch.Tensor):
        return 0
    return torch_internals.example_of(value.numel()) * value.element_size()


# --- what is never computed again -------------------------------------------------------------------------------------


def _find_banned(graph: JointGraph) -> set[torch.fx.Node]:
    banned = {
        node
        for node in graph.tensors
        if node.op == "placeholder"
        or (
            node in graph.forward
            and not _is_view(node)
            and (_is_expensive(node) or _is_materialised_in_backward(node, graph))
        )
    }
    banned -= set(graph.tangents)
    return banned | _banned_residuals(graph, banned) | _banned_chain_ends(graph, banned)


def _is_expensive(node: torch.fx.Node) -> bool:
    if node.target is operator.getitem:
        return False
    bytes_read = sum(_bytes(each.meta.get("val")) for each in node.all_input_nodes)
    return not _is_recomputable(node) or REDUCTION_RATIO * _bytes(node.meta.get("val")) < bytes_read


def _is_recomputable(node: torch.fx.Node) -> bool:
    if node.target is operator.getitem or _is_view(node):
        return True
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded in target.tags:
        return False
    return torch.Tag.pointwise in target.tags or target.overloadpacket in RECOMPUTABLE_OPS


def _is_view(node: torch.fx.Node) -> bool:
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return False
    return target.is_view or target.overloadpacket is aten._unsafe_view


def _can_fuse(producer: torch.fx.Node, user: torch.fx.Node) -> bool:
    """Whether the user reads the value where it is made, and not from memory."""
    if user.op == "output":
        return False
    joins = isinstance(user.target, torch._ops.OpOverload) and user.target.overloadpacket in CONCATENATIONS
    return joins or (_is_fusible(producer) and _is_fusible(user))


def _is_fusible(node: torch.fx.Node) -> bool:
    is_random = isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags
    return node.op == "call_function" and (is_random or _is_recomputable(node))


def _is_materialised_in_backward(node: torch.fx.Node, graph: JointGraph) -> bool:
    """Whether the derivative reads it from memory, perhaps through views: then it is cheaper to have it there."""
    worklist = [node]
    while worklist:
        value = worklist.pop()
        for user in _users(value):
            if user not in graph.forward and not _can_fuse(value, user):
                return True
            if _is_view(user):
                worklist.append(user)
    return False


def _banned_residuals(graph: JointGraph, banned: set[torch.fx.Node]) -> set[torch.fx.Node]:
    """What joins an early value with a late one: ``x + f(x)``, with a product in ``f``.

    Computed again, it would drag on the early value, and so on back to the first of a row of such sums.
    """
    first_materialised: dict[torch.fx.Node, float] = {}
    """Where the first operator is that reads a value from memory, or what was made of it on the way."""
    for node in reversed(graph.nodes):
        later_users = [user for user in _users(node) if user in graph.forward]
        first_materialised[node] = min(
            (first_materialised[user] if _can_fuse(node, user) else graph.positions[user] for user in later_users),
            default=math.inf,
        )
    return {
        user
        for node in graph.nodes
        if node in graph.forward
        for user in _users(node)
        if user in graph.forward and user not in banned and not _is_view(user)
        if _can_fuse(node, user) and graph.positions[user] > first_materialised[node]
    }


def _banned_chain_ends(graph: JointGraph, banned: set[torch.fx.Node]) -> set[torch.fx.Node]:
    """Every so often, a value of a chain of cheap operators."""
    length: dict[torch.fx.Node, int] = {}
    banned_ends = set()
    for node in graph.nodes:
        lengths = (length[each] + 1 for each in node.all_input_nodes if each not in banned and _can_fuse(each, node))
        length[node] = max(lengths, default=0)
        if length[node] > MAX_RECOMPUTED_CHAIN and node in graph.forward and not _is_view(node):
            banned_ends.add(node)
            length[node] = 0
    return banned_ends


# --- the two graphs ---------------------------------------------------------------------------------------------------


def _extract(
    inputs: Sequence[torch.fx.Node], outputs: Sequence[torch.fx.Node | None], order: Sequence[torch.fx.Node]
) -> torch.fx.Graph:
    """A graph from some values to others: the ``ordered`` in this order, others just before they are read."""
    extracted = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in inputs:
        copies[node] = extracted.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    results = [node for node in outputs if node is not None]
    needed = _ancestors(results, copies.keys())
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
    worklist = [root]
    while worklist:
        node = worklist[-1]
        missing = [each for each in node.all_input_nodes if each not in copies]
        worklist.extend(missing)
        if not missing:
            worklist.pop()
            if node not in copies:
                copies[node] = graph.node_copy(node, copies.__getitem__)
