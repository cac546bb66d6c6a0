"""Calls in a captured graph: their names, and the arguments that they write to.

    x += y, x.t_(), relu(x, inplace=True), torch.detach_(input=x), torch.add(y, 1, out=x)    written_arguments: x

In torch: torch/fx/node.py, and AliasInfo of a schema. Read next: nbcompile/aot/self_overlapping_writes.py
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.fx
from torch.utils import _pytree as pytree

# ``x += y`` and ``x[i] = y``.
IN_PLACE_OPERATORS = frozenset({operator.setitem, operator.delitem}) | {
    getattr(operator, name) for name in operator.__all__ if name.startswith("i") and hasattr(operator, name[1:])
}

# ``x.__iadd__(y)`` and ``x.__setitem__(i, y)``.
IN_PLACE_METHODS = frozenset(f"__{function.__name__}__" for function in IN_PLACE_OPERATORS)

FUNCTIONS_OF_MODULES = "torch.nn.functional"  # a literal: the program may replace the module

TORCH_NAMESPACES = ("aten::", "prims::", "prim::")


def written_arguments(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The arguments that a captured call writes to.

    An operator's schema says which ones. A function of Python or a method has no schema: it writes to ``out``, or
    to the first argument if it is in place. In a list (``torch._foreach_add_``), to each tensor of the list.
    """
    if not node.op.startswith("call_"):
        return []
    if isinstance(node.target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return list(dict.fromkeys(_nodes(_written_by_schema(node))))
    if node.kwargs.get("out") is not None:
        return _nodes(node.kwargs["out"])
    return _nodes(_first_argument(node)) if is_in_place(node) else []


def is_in_place(node: torch.fx.Node) -> bool:
    """Return whether a call writes to its first argument: ``x += y``, ``x.t_()``, ``relu(x, inplace=True)``."""
    name = name_of_target(node)
    by_name = (name.endswith("_") and not name.endswith("__")) or name in IN_PLACE_METHODS
    return by_name or node.target in IN_PLACE_OPERATORS or bool(_inplace_flag(node))


def name_of_target(node: torch.fx.Node) -> str:
    """The name of the function or method that a node calls: ``add_``, also for the overload ``aten.add_.Tensor``."""
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target.overloadpacket.__name__
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))


def _written_by_schema(node: torch.fx.Node) -> list[Any]:
    target: Any = node.target
    # ``getattr``, and not ``__getattr__``, which creates each overload again.
    packet = isinstance(target, torch._ops.OpOverloadPacket)
    overloads = [getattr(target, name) for name in target.overloads()] if packet else [target]
    found = []
    for overload in overloads:  # which overload of a packet runs depends on the arguments: all that may run count
        for position, argument in enumerate(overload._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                given = node.args[position : position + 1] if not argument.kwarg_only else ()
                found.append(next(iter(given), node.kwargs.get(argument.name)))
    return found


def _first_argument(node: torch.fx.Node) -> Any:
    return next(iter(node.args), node.kwargs.get("input", node.kwargs.get("self")))


def _inplace_flag(node: torch.fx.Node) -> Any:
    """The argument ``inplace`` of a function of ``torch.nn.functional``, which modules pass by position."""
    if "inplace" in node.kwargs or node.op != "call_function":
        return node.kwargs.get("inplace")
    if getattr(node.target, "__module__", "") != FUNCTIONS_OF_MODULES:
        return None
    position = _position_of_inplace(node.target)
    return next(iter(node.args[position : position + 1]), None)


@functools.cache
def _position_of_inplace(function: Callable[..., Any]) -> int:
    """The position of the parameter ``inplace``; behind all of them where there is none."""
    parameters = list(inspect.signature(function).parameters)
    return parameters.index("inplace") if "inplace" in parameters else len(parameters)


def _nodes(arguments: Any) -> list[torch.fx.Node]:
    return [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, torch.fx.Node)]


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
