"""The joint graph, with its nodes classified into those of the forward and those of the backward pass.

    ClassifiedGraph(joint).backward   nodes that need a tangent: they run in the backward pass

In torch: torch/_functorch/partitioners.py (classify_nodes). Read next: nbcompile/aot/partition.py
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
import torch.fx

from nbcompile.support import lazy_import

if TYPE_CHECKING:
    import networkx as nx
else:
    nx = lazy_import.module("networkx")  # 0.1 s, only for graphs with gradients


MAX_RECOMPUTED_CHAIN = 100
"""Operators. No chain of recomputed values is longer."""


def is_size(node: torch.fx.Node) -> bool:
    """Return whether a node is a symbolic size. Sizes are recomputed from the symbols wherever they are needed."""
    return isinstance(node.meta.get("val"), torch.SymInt)


@dataclass(frozen=True)
class ClassifiedGraph:
    """A joint graph with its nodes sorted into forward and backward ones."""

    joint: torch.fx.Graph
    outputs: int

    @cached_property
    def _returned(self) -> Sequence[torch.fx.Node | None]:
        (returned,) = self.joint.output_node().args
        return tuple(returned)  # type: ignore[arg-type]

    @property
    def results(self) -> Sequence[torch.fx.Node]:
        """Results of the forward pass."""
        return self._returned[: self.outputs]  # type: ignore[return-value]

    @property
    def gradients(self) -> Sequence[torch.fx.Node | None]:
        """Gradients, one per primal; None where there is none."""
        return self._returned[self.outputs :]

    @cached_property
    def nodes(self) -> Sequence[torch.fx.Node]:
        """All nodes but the output, in topological order."""
        return [node for node in self.joint.nodes if node.op != "output"]

    @cached_property
    def tensors(self) -> Sequence[torch.fx.Node]:
        """All nodes without the sizes."""
        return [node for node in self.nodes if not is_size(node)]

    @cached_property
    def positions(self) -> dict[torch.fx.Node, int]:
        """Position of each node in the graph."""
        return {node: position for position, node in enumerate(self.nodes)}

    @cached_property
    def inputs(self) -> Sequence[torch.fx.Node]:
        """The primals."""
        return [node for node in self.nodes if node.op == "placeholder" and not node.name.startswith("tangents_")]

    @cached_property
    def tangents(self) -> Sequence[torch.fx.Node]:
        """Placeholders for the gradients of the results."""
        return [node for node in self.nodes if node.op == "placeholder" and node.name.startswith("tangents_")]

    @cached_property
    def backward(self) -> frozenset[torch.fx.Node]:
        """Nodes that depend on a tangent."""
        # Nodes are in topological order: the operands of a node were visited before it, so that one pass is
        # enough. Tangents come first.
        found = set(self.tangents)
        for node in self.nodes:
            if not found.isdisjoint(node.all_input_nodes):
                found.add(node)
        return frozenset(found)

    @cached_property
    def forward(self) -> frozenset[torch.fx.Node]:
        """Inputs, nodes that the results depend on, and the further results of operators among them."""
        # In reverse order: users are visited before their operands. If one result of an operator is in the forward
        # pass, all its results are, since it computes all of them at once.
        found = {*self.results, *self.inputs}
        for node in reversed(self.nodes):
            if node in found:
                found.update(node.all_input_nodes)
        found.update(each for each in self.nodes if each.target is operator.getitem and each.args[0] in found)
        return frozenset(found)

    @cached_property
    def gradients_without_tangent(self) -> frozenset[torch.fx.Node]:
        """Gradients that depend on no tangent: the forward can compute them, and the backward returns them."""
        return frozenset(node for node in self.gradients if node is not None and node not in self.backward)

    @cached_property
    def distance(self) -> dict[torch.fx.Node, int]:
        """Number of operators between each node and the backward, along the shortest path."""
        # In reverse order: users have their distance before their operands. A node that the forward does not
        # compute is in the backward, at distance 0.
        steps: dict[torch.fx.Node, int] = {}
        for node in reversed(self.nodes):
            after = (steps[user] + 1 for user in node.users if user in steps)
            steps[node] = 0 if node not in self.forward else min(after, default=MAX_RECOMPUTED_CHAIN)
        return steps

    def saved_without_recompute(self) -> list[torch.fx.Node]:
        """Values that the backward reads if it recomputes nothing."""
        return [
            node
            for node in self.nodes
            if node in self.forward and not is_size(node)
            if node in self.gradients_without_tangent or any(user not in self.forward for user in users(node))
        ]


def users(node: torch.fx.Node) -> Iterable[torch.fx.Node]:
    """Nodes that read a value, without the output."""
    return (user for user in node.users if user.op != "output")
