"""Nodes that are erased when a graph is finished: they have no effect, and their result is unused.

    size = x.size(0); half = size // 2       half is a constant of the traced program: both nodes are erased
    with torch.no_grad(): pass               two calls that undo each other
    torch._C._set_grad_enabled(True)         it is True already

Operators on tensors stay although they are unused: each may raise, or write. The backend decides about them.

In torch: torch/_dynamo/output_graph.py (remove_unused_get_attr_nodes, cleanup_graph). Read next:
nbcompile/tracing/graph/output_graph.py
"""

from __future__ import annotations

import operator

import torch
import torch.fx

from nbcompile import torch_internals
from nbcompile.capture.node_meta import EXAMPLE
from nbcompile.torch_internals import operators


def drop_unused_numbers(graph: torch.fx.Graph) -> None:
    """Erase arithmetic on sizes, and items of sequences, without users."""
    # From the last node to the first: a node that only an erased node used is unused by then.
    for node in reversed(graph.nodes):
        if not node.users and node.op != "placeholder" and _only_computes_a_number(node):
            graph.erase_node(node)


def drop_modes_without_effect(graph: torch.fx.Graph, began_with_grad: bool) -> None:
    """Erase calls that set the grad mode to its current value, and changes that the next call undoes."""
    # Two passes: the first erases settings of the current mode. The rest alternate; the second pass erases pairs
    # with no operator in between.
    #     with no_grad(): pass        set False, set True      both go
    enabled = began_with_grad
    for node in list(graph.nodes):
        if _sets_grad(node, enabled):
            graph.erase_node(node)
        elif _sets_grad(node, not enabled):
            enabled = not enabled
    kept: list[torch.fx.Node] = []
    for node in list(graph.nodes):
        if kept and _is_grad(node) and _is_grad(kept[-1]):  # they differ: the second undoes the first
            graph.erase_node(kept.pop())
            graph.erase_node(node)
        else:
            kept.append(node)


def _only_computes_a_number(node: torch.fx.Node) -> bool:
    if node.target in operators.transform_steps():
        return False
    if node.target is operator.getitem or torch_internals.is_size_accessor(node):
        return True
    numbers = (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)
    operands = [
        argument.meta.get(EXAMPLE) if isinstance(argument, torch.fx.Node) else argument
        for argument in (*node.args, *node.kwargs.values())
    ]
    return node.op == "call_function" and all(isinstance(each, numbers) for each in (node.meta.get(EXAMPLE), *operands))


def _is_grad(node: torch.fx.Node) -> bool:
    return node.target is torch._C._set_grad_enabled


def _sets_grad(node: torch.fx.Node, mode: bool) -> bool:
    return _is_grad(node) and node.args == (mode,)
