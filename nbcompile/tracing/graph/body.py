"""A graph inside of the graph: the body of a function that an operator is given.

What the body uses from outside becomes an input of the body, in the order of
first use, and an argument of the operator's node ("lifted").

    w = x + 1
    torch.cond(p, lambda a: a * w, ...)    the frame's graph:  add ; get_attr cond_true_0 ; cond
                                           cond_true_0:        placeholder l_x_, w ; mul

While a body is traced, what exists outside of it must not change: the operator
may run it never, once or several times.

In torch: torch/_dynamo/output_graph.py (SubgraphTracer). Read next:
nbcompile/tracing/calls/higher_order.py
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Protocol

import torch
import torch.fx

from nbcompile import torch_internals
from nbcompile.capture.node_meta import EXAMPLE
from nbcompile.support.process_state import STATE, Lifetime
from nbcompile.tracing import breaks

creation_order = STATE.add("tracing.graph.body.creation_order", itertools.count(), Lifetime.PROCESS)
"""Numbers in the order in which trackers and bodies are created."""


class Value(Protocol):
    """Protocol of a variable tracker: the members that a graph reads of a value of the traced program."""

    created_at: int

    def is_created_here(self) -> bool:
        """True if the traced code created the value: nothing outside knows it."""

    def describe(self) -> str:
        """Text of the value on the symbolic stack, for people."""


class Body:
    """One graph under construction; ``parent`` None: the frame's own."""

    def __init__(self, parent: Body | None, symbols: Mapping[object, torch.fx.Node], *, may_change: bool) -> None:
        self.parent = parent
        self.graph = torch.fx.Graph()
        self.lifted: dict[torch.fx.Node, torch.fx.Node] = {}
        """Nodes of the graphs around it, and the inputs that represent them here."""
        self.may_change = may_change
        """True if it may change what exists outside of it, as the frame itself may."""
        self.began = next(creation_order)
        self._symbols = symbols
        self._versions: dict[torch.fx.Node, int] = {}
        self._last: torch.fx.Node | None = None

    def lift(self, node: torch.fx.Node) -> torch.fx.Node:
        """The node as this body sees it.

        Raises:
            breaks.Unsupported: it belongs to a body that is closed.
        """
        if node.graph is self.graph:
            return node
        if self.parent is None:
            raise breaks.unsupported(breaks.BODY_LEAK, str(node), name=node.name)
        # A value of an outer graph becomes an input of each body between there and here, from the outside in.
        if node not in self.lifted:
            outer = self.parent.lift(node)
            # A tensor's sizes may be symbols: those are inputs of the body as well.
            for symbol in torch_internals.symbols_in_order(node.meta[EXAMPLE]):
                if self._symbols.get(symbol, node) is not node:
                    self.lift(self._symbols[symbol])
            self.lifted[node] = self.placeholder(outer.name, node.meta[EXAMPLE])
        return self.lifted[node]

    def placeholder(self, name: str, example: object) -> torch.fx.Node:
        """A new input, behind those that are there already."""
        first = next(iter(self.graph.nodes), self.graph._root)
        # fx requires placeholders first; the inputs of a body are found one by one.
        with self.graph.inserting_after(self._last) if self._last else self.graph.inserting_before(first):
            node = self._last = self.graph.placeholder(name)
        node.meta[EXAMPLE] = example
        if isinstance(example, torch.Tensor):
            self._versions[node] = example._version
        return node

    def is_outside(self, tracker: Value) -> bool:
        """True if a value exists outside of this body."""
        # Older than the body, or from outside of the trace.
        return tracker.created_at < self.began or not tracker.is_created_here()

    def changes_inputs(self) -> bool:
        """True if an operator of the body writes to an input."""
        # The version counter of a tensor grows with each write to it.
        return any(node.meta[EXAMPLE]._version != version for node, version in self._versions.items())

    def shares_memory(self) -> bool:
        """True if inputs and outputs, taken together, share memory."""
        (output,) = self.graph.find_nodes(op="output")
        examples = [each.meta[EXAMPLE] for each in (*self._versions, *output.all_input_nodes)]
        storages = [each.untyped_storage()._cdata for each in examples if isinstance(each, torch.Tensor)]
        return len(set(storages)) < len(storages)
