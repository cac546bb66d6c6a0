"""Which node of a recorded graph holds a symbolic size.

    aten.view(x, [s77 * s27])      the operator was given a number that is no tensor's
    mul = operator.mul(s77, s27)   the graph computes it from its inputs, once

A tracer with proxies follows every operation on a number. Here nobody does: a symbolic number knows its formula
(``SymInt.node.expr``), and the nodes that compute it are made from that when an operator is given one.

In torch: torch/fx/experimental/proxy_tensor.py (``_build_proxy_for_sym_expr``), torch/utils/_sympy/interp.py.
Read next: nbcompile/aot/pure.py
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
    "CleanDiv": operator.floordiv,
    "Pow": operator.pow,
    "PowByNatural": operator.pow,
    FloorDiv.__name__: operator.floordiv,
    Mod.__name__: operator.mod,
}
"""How Python computes a formula, by the name of its class. All give ints."""


class UnknownSize(Exception):
    """A number that cannot be computed from the symbols among the inputs by ``CALLS``."""


class SizeNodes:
    """The nodes of numbers; makes what is missing at the end of the graph.

    Args:
        graph: that is being recorded.
    """

    def __init__(self, graph: torch.fx.Graph) -> None:
        self.graph = graph
        self.nodes: dict[sympy.Expr, torch.fx.Node] = {}

    def define(self, value: torch.SymInt, node: torch.fx.Node) -> None:
        """This node is where a symbol comes into the graph."""
        node.meta["val"] = value
        self.nodes.setdefault(value.node.expr, node)

    def node_of(self, value: torch.SymInt, on_new_node: Callable[[torch.fx.Node], None]) -> torch.fx.Node | int:
        """The node that computes a number, or the number, where it is known by now.

        Args:
            value: a symbolic int.
            written: is told every node that had to be made.

        Raises:
            NotOfTheInputs: nothing in the graph says what it is.
        """
        return self._node_of_expression(value.node.expr, value.node.shape_env, on_new_node)

    def _node_of_expression(
        self, expression: sympy.Expr, shape_env: Any, on_new_node: Callable[[torch.fx.Node], None]
    ) -> Any:
        if expression.is_Integer:
            return int(expression)
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
    """The last operation of a formula, and what it is done to."""
    call = CALLS.get(type(expression).__name__)
    if call is None or (call is operator.pow and not expression.args[1].is_nonnegative):
        raise UnknownSize(expression)
    *others, last = expression.args
    return call, others[0] if len(others) == 1 else expression.func(*others), last
