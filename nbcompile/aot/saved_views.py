"""Views of inputs are not saved for the backward graph: the inputs are saved, and the backward recreates the views.

    forward    y = mm(x, w)      saves t(w)        becomes    saves w
    backward   mm(dy, t_1)                         becomes    t_1 = t(w); mm(dy, t_1)

A program creates views without autograd, so such a view has its own version counter. If ``w`` is overwritten between
the call and ``backward()``, autograd compares versions: that of ``w`` itself differs, as in eager mode.

In torch: nothing; Inductor's gradient is then silently wrong. Read next: nbcompile/aot/partition.py
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import torch
import torch.fx

from nbcompile.aot.classified_graph import is_size


def is_view(node: torch.fx.Node) -> bool:
    """Return whether an operator returns a view, or several, of its first operand."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return False
    return target.is_view or target.overloadpacket is torch.ops.aten._unsafe_view


def viewed_input(node: torch.fx.Node) -> torch.fx.Node | None:
    """Return the node if it is an input, or the input of which it is a view (of a view ...); None for other memory."""
    while node.op != "placeholder":
        operand = node.args[0] if node.args else None
        if not isinstance(operand, torch.fx.Node):
            return None
        if not is_view(node) and not (node.target is operator.getitem and is_view(operand)):
            return None
        if not all(each is operand or is_size(each) for each in node.all_input_nodes):
            return None
        node = operand
    return node


def with_inputs(saved: Iterable[torch.fx.Node]) -> list[torch.fx.Node]:
    """Saved values with each view of an input replaced by that input, once."""
    return list(dict.fromkeys(viewed_input(node) or node for node in saved))


def save_inputs(forward: torch.fx.Graph, backward: torch.fx.Graph, results: int) -> None:
    """Save inputs instead of their views, in two graphs that a partitioner of torch has returned.

    Args:
        forward: its output lists the results, then saved tensors, then saved sizes.
        backward: takes the sizes, the tensors, and the gradients; a placeholder has the name of the saved value.
        results: number of results.
    """
    returned: Any = forward.output_node().args[0]
    saved = list(returned[results:])
    # Other kinds of saved values (opaque objects) have an order that new sizes would disturb.
    if not all(isinstance(node.meta.get("val"), (torch.Tensor, torch.SymInt)) for node in saved):
        return
    taken = {node.name: node for node in backward.find_nodes(op="placeholder")}
    for node in saved.copy():
        base = viewed_input(node)
        # Saved as an attribute of the user's ``ctx``: eager mode does not check its version either.
        is_checked = not node.meta.get("saved_tensor_with_no_vc_check")
        if base is None or base is node or not is_checked or node.name not in taken:
            continue
        _replay(node, backward, saved, taken)
    forward.output_node().args = ((*returned[:results], *saved),)
    forward.eliminate_dead_code()


def _replay(
    saved_view: torch.fx.Node, backward: torch.fx.Graph, saved: list[torch.fx.Node], taken: dict[str, torch.fx.Node]
) -> None:
    """Replace one saved view by its input: the backward graph recreates the view before its first use."""
    old = taken.pop(saved_view.name)

    def in_backward(node: torch.fx.Node) -> torch.fx.Node:
        if node.name in taken:
            return taken[node.name]
        if node.op == "placeholder" or is_size(node):
            return take(node)
        return backward.node_copy(node, in_backward)

    def take(node: torch.fx.Node) -> torch.fx.Node:
        # Sizes come last in what the forward graph returns, and first in what the backward graph takes.
        at = saved.index(saved_view)
        following = old
        if is_size(node):
            at = len(saved)
            following = next(each for each in backward.nodes if not is_size(each))
        saved.insert(at, node)
        with backward.inserting_before(following):
            taken[node.name] = backward.placeholder(node.name)
        taken[node.name].meta = dict(node.meta)
        return taken[node.name]

    first_use = next(node for node in backward.nodes if old in node.all_input_nodes)
    with backward.inserting_before(first_use):
        view = in_backward(saved_view)
    old.replace_all_uses_with(view)
    backward.erase_node(old)
    saved.remove(saved_view)
