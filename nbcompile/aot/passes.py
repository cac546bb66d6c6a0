"""Passes over the joint graph, before it is partitioned into forward and backward.

    relu = aten.relu(x);  saved = aten.detach(relu)     ->     relu = aten.relu(x)
    backward reads  aten.detach(saved)                         backward reads  relu

    t = aten.t(w), and in backward t_1 = aten.t(w)      ->     t, twice

In torch: torch/_inductor/fx_passes/joint_graph.py, fx_graph_cse in torch/_functorch/compile_utils.py (which imports
Inductor, 1.1 s). Read next: nbcompile/lowering/
"""

from __future__ import annotations

import operator
from collections.abc import Hashable
from typing import Any, cast

import torch
import torch.fx
import torch.utils._pytree as pytree

from nbcompile import torch_internals
from nbcompile.aot import exposed_memory
from nbcompile.capture.complex_literals import exact
from nbcompile.capture.node_meta import SAVED_IN_EAGER
from nbcompile.ir import scalars

UNDEFINED_CONTENTS = frozenset({torch.ops.aten.empty, torch.ops.aten.empty_strided, torch.ops.aten.empty_like})
"""Operators that leave memory uninitialised: two calls with equal arguments may differ."""
NUMBER_OPERATORS = frozenset(getattr(operator, name) for name in operator.__all__ if not name.startswith("i"))
"""Python's own operators, on sizes and on tuples of results."""


def remove_detach(joint: torch.fx.GraphModule) -> None:
    """Remove ``detach``: it marks saved tensors for autograd, which does not run inside a compiled graph.

    A detached output stays, as the user may have the original, too.
    """
    for node in joint.graph.find_nodes(op="call_function", target=torch.ops.aten.detach.default):
        if any(user.op == "output" for user in node.users):
            continue
        (original,) = node.args
        node.replace_all_uses_with(original)
        joint.graph.erase_node(node)
    joint.recompile()


def make_complex_literals_exact(joint: torch.fx.GraphModule) -> None:
    """Replace complex literals whose ``repr`` is another number, or a name, by calls: a graph's code is its text."""
    inexact = [
        node
        for node in joint.graph.nodes
        if any(type(value) is complex for value in pytree.tree_leaves((node.args, node.kwargs)))
    ]
    for node in inexact:
        node.args = torch.fx.node.map_aggregate(node.args, cast(Any, exact))
        node.kwargs = torch.fx.node.map_aggregate(node.kwargs, cast(Any, exact))
    if inexact:
        joint.recompile()


def eliminate_common_subexpressions(joint: torch.fx.GraphModule) -> None:
    """Common subexpression elimination: derivatives repeat parts of the forward pass.

    Outputs of the graph keep storages of their own, as the user may write to one of them.
    """
    returned = {exposed_memory.memory(node) for node in joint.graph.output_node().all_input_nodes} - {0}
    first_with_key: dict[Hashable, torch.fx.Node] = {}
    #     a = x + 1; x.add_(2); b = x + 1      keys (add, 0, ...) and (add, 1, ...): both stay
    writes = 0
    for node in joint.graph.nodes:
        if not _is_pure(node):
            writes += _is_mutation(node)
        # a = x + 1; b = x + 1; return a, b: the user may write to a, and b must not change.
        elif exposed_memory.memory(node) not in returned and (key := _key(node, writes)) is not None:
            earlier = first_with_key.setdefault(key, node)
            # Eager saves the node, and not the earlier one, to which the user may write before the backward.
            is_apart = SAVED_IN_EAGER in node.meta and SAVED_IN_EAGER not in earlier.meta
            if earlier is not node and not (is_apart and exposed_memory.memory(earlier) in returned):
                node.replace_all_uses_with(earlier)
                joint.graph.erase_node(node)
    joint.recompile()


def _is_pure(node: torch.fx.Node) -> bool:
    target = node.target
    if node.op != "call_function":
        return False
    if not isinstance(target, torch._ops.OpOverload):
        return target in NUMBER_OPERATORS
    is_random = torch.Tag.nondeterministic_seeded in target.tags or target.overloadpacket in UNDEFINED_CONTENTS
    # Each call of nonzero has its own symbol for its size: without the call that symbol would be unbound.
    unbacked = bool(node.meta.get("unbacked_bindings"))
    return not (is_random or unbacked or target._schema.is_mutable or torch_internals.has_effect(target))


def _is_mutation(node: torch.fx.Node) -> bool:
    """Return whether the node may write to memory that other nodes read."""
    # Without a schema (a higher-order operator) nothing is known, so it counts as a write.
    return not isinstance(node.target, torch._ops.OpOverload) or node.target._schema.is_mutable


def _key(node: torch.fx.Node, writes: int) -> Hashable | None:
    """A key that is equal for nodes that compute the same value; None where an argument is not hashable.

    ``writes`` counts the mutations before the node: two reads with a write between them are different.
    """
    key = (node.target, writes, _hashable(node.args), _hashable(node.kwargs))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _hashable(argument: Any) -> Hashable:
    """A hashable form of an argument, equal only for identical numbers (ir/scalars.py): 1, 1.0 and True differ."""
    # A list and a tuple of the same items are the same argument for an operator of ATen.
    if isinstance(argument, (tuple, list)):
        return "sequence", tuple(map(_hashable, argument))
    if isinstance(argument, dict):
        return "dict", tuple((name, _hashable(value)) for name, value in sorted(argument.items()))
    if isinstance(argument, slice):
        return "slice", tuple(map(_hashable, (argument.start, argument.stop, argument.step)))
    return scalars.key(argument)
