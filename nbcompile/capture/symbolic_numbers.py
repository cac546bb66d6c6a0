"""Symbolic numbers as operands: where an operator or its derivative needs the number itself, it is specialised.

    x ** n, n symbolic      the derivative is n * x ** (n - 1), but 0 if n is 0: autograd's C++ reads n, and a symbol
                            raises "NYI SymInt equality"
    x ** 3                  the node has the number of this call, which a guard fixes

In torch: nothing; torch.compile raises for the second exponent. Read next: nbcompile/tracing/graph/fake_run.py
"""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.fx

from nbcompile.capture.node_meta import EXAMPLE

_POWERS = frozenset(
    (operator.pow, operator.ipow, pow, torch.pow, torch.float_power, "pow", "pow_", "__pow__", "__rpow__", "__ipow__")
)


def has_exponent(node: torch.fx.Node) -> bool:
    """True if the derivative of a node's operator reads its number."""
    return node.target in _POWERS


def specialise_operands(node: torch.fx.Node) -> bool:
    """Replace the symbolic numbers among a node's operands by their values, which are guarded from now on.

    True if there were any. An unbacked symbol has no value, and stays.
    """
    before = node.all_input_nodes
    node.args, node.kwargs = torch.fx.map_arg((node.args, node.kwargs), _value_or_node)
    return len(node.all_input_nodes) < len(before)


def _value_or_node(operand: torch.fx.Node) -> Any:
    example = operand.meta.get(EXAMPLE)
    if not isinstance(example, (torch.SymInt, torch.SymFloat)) or not example.node.has_hint():
        return operand
    return int(example) if isinstance(example, torch.SymInt) else float(example)


def with_known_exponents(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The module itself; or, if it differentiates a power with a symbolic exponent or base, a copy with its number."""
    if not any(map(_is_trained_power, module.graph.nodes)):
        return module
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    graph.output(graph.graph_copy(module.graph, copies))
    for node in filter(_is_trained_power, module.graph.nodes):
        specialise_operands(copies[node])
    copied = torch.fx.GraphModule(module, graph)
    copied.meta.update(module.meta)
    return copied


def _is_trained_power(node: torch.fx.Node) -> bool:
    example = node.meta.get(EXAMPLE)
    if not has_exponent(node) or not isinstance(example, torch.Tensor) or not example.requires_grad:
        return False
    return any(isinstance(operand.meta.get(EXAMPLE), torch.SymInt | torch.SymFloat) for operand in node.all_input_nodes)
