"""Nodes of symbolic sizes in a traced graph.

    aten.view(x, [s77 * s27])      an operator has a symbolic size as its argument
    mul = operator.mul(s77, s27)   the graph computes it from its inputs, once

A tracer with proxies follows every operation on a number. This one does not: a symbolic number has its formula
(``SymInt.node.expr``), from which the nodes that compute it are created when it is an operator's argument.

In torch: torch/fx/experimental/proxy_tensor.py (``_build_proxy_for_sym_expr``), torch/utils/_sympy/interp.py.
Read next: nbcompile/aot/compile.py
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import sympy
import torch
import torch.fx

from nbcompile.ir.index import FloorDiv, Mod

CALLS: dict[str, Callable[..., Any]] = {
    "Add": operator.add,
    "Mul": operator.mul,
    "Max": torch.sym_max,
    "Min": torch.sym_min,
    "PythonMod": operator.mod,
    # A division without a remainder, by torch's definition: rounding down changes nothing.
    "CleanDiv": operator.floordiv,
    "Pow": operator.pow,
    "PowByNatural": operator.pow,
    FloorDiv.__name__: operator.floordiv,
    Mod.__name__: operator.mod,
}
"""Python function for each kind of formula, by the name of its SymPy class. All return ints."""


class UnknownSize(Exception):
    """A size that cannot be computed from the symbols among the inputs by ``CALLS``."""


class SizeNodes:
    """Map from a size's formula to its node; missing nodes are appended to the graph.

    Args:
        graph: the graph that is being traced.
    """

    def __init__(self, graph: torch.fx.Graph) -> None:
        self.graph = graph
        self.nodes: dict[sympy.Expr, torch.fx.Node] = {}

    def define(self, value: torch.SymInt, node: torch.fx.Node) -> None:
        """Register the node that defines a symbol in the graph: a placeholder, or a size of one."""
        node.meta["val"] = value
        self.nodes.setdefault(value.node.expr, node)

    def node_of(self, value: torch.SymInt, on_new_node: Callable[[torch.fx.Node], None]) -> torch.fx.Node | int:
        """Return the node that computes a size, or the number if it is static by now.

        Args:
            value: a symbolic int.
            on_new_node: called with every node that is added to the graph.

        Raises:
            UnknownSize: it cannot be computed from the graph's inputs.
        """
        return self._node_of_expression(value.node.expr, value.node.shape_env, on_new_node)

    def _node_of_expression(
        self, expression: sympy.Expr, shape_env: Any, on_new_node: Callable[[torch.fx.Node], None]
    ) -> Any:
        if expression.is_Integer:
            return int(expression)
        #     s0 * s1 + 4    ->    add(4, mul(s0, s1))     each part once for the whole graph
        if expression not in self.nodes:
            call, first, last = _split_last_operation(expression)
            arguments = (
                self._node_of_expression(first, shape_env, on_new_node),
                self._node_of_expression(last, shape_env, on_new_node),
            )
            node = self.graph.call_function(call, arguments)
            node.meta["val"] = shape_env.create_symintnode(expression, hint=None)
            on_new_node(node)
            self.nodes[expression] = node
        return self.nodes[expression]


def _split_last_operation(expression: sympy.Expr) -> tuple[Callable[..., Any], sympy.Expr, sympy.Expr]:
    """Split a formula into its last operation and two operands."""
    call = CALLS.get(type(expression).__name__)
    if call is None or (call is operator.pow and not expression.args[1].is_nonnegative):
        raise UnknownSize(expression)
    # A sum in SymPy has any number of terms: a + b + c is (a + b) + c.
    *others, last = expression.args
    return call, others[0] if len(others) == 1 else expression.func(*others), last
