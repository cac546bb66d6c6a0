"""Calls in a captured graph: their names, and whether they write into their first argument.

    x += y, x.t_(), relu(x, inplace=True)       is_in_place(node) is True

In torch: torch/fx/node.py. Read next: nbcompile/aot/self_overlapping_writes.py
"""

from __future__ import annotations

import operator

import torch
import torch.fx

# ``x += y`` and ``x[i] = y``.
IN_PLACE_OPERATORS = frozenset({operator.setitem, operator.delitem}) | {
    getattr(operator, name) for name in operator.__all__ if name.startswith("i") and hasattr(operator, name[1:])
}

TORCH_NAMESPACES = ("aten::", "prims::", "prim::")


def is_in_place(node: torch.fx.Node) -> bool:
    """True if a captured call writes into its first argument: ``x += y``, ``x.t_()``, ``relu(x, inplace=True)``."""
    name = name_of_target(node)
    by_name = name.endswith("_") and not name.endswith("__")
    return by_name or node.target in IN_PLACE_OPERATORS or bool(node.kwargs.get("inplace"))


def name_of_target(node: torch.fx.Node) -> str:
    """The name of the function or method that a node calls."""
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))


def has_own_derivative(module: torch.fx.GraphModule) -> bool:
    """Return whether a graph calls an ``autograd.Function`` or a custom operator: their backward may return None."""
    graphs = [each.graph for each in module.modules() if isinstance(each, torch.fx.GraphModule)]
    return any(_defines_derivative(node.target) for graph in graphs for node in graph.nodes)


def _defines_derivative(target: object) -> bool:
    if isinstance(target, torch._ops.OpOverloadPacket):
        return not target._qualified_op_name.startswith(TORCH_NAMESPACES)
    if isinstance(target, torch._ops.OpOverload):
        return not target.name().startswith(TORCH_NAMESPACES)
    return target is torch.ops.higher_order.autograd_function_apply
