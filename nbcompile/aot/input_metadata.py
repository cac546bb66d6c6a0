"""Detects changes of an input's sizes, strides or history in place that AOTAutograd does not make, or makes wrongly.

    x.t_().mul_(2)       sizes and values: the graph cannot copy the new values into an input that has the old sizes,
                         so the wrapper around the graph writes them
    x.detach_()          the caller's x would keep its history      } such a graph runs operator by operator,
    w.unsqueeze_(0)      w holds other tensors (a wrapper)          } as it was captured
    v = h.view(-1)       h has a history: to return v, AOTAutograd  }
    h.t_()               would make the view again, of the new h    }
    base[:, 3:].t_()     torch 2.15 compares with the size of the   }
                         memory, which is no input of the graph     }

In torch: torch/_functorch/_aot_autograd/schemas.py (InputAliasInfo); torch.compile breaks the graph at each such call.
Read next: nbcompile/aot/compile.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.fx

from nbcompile import torch_internals
from nbcompile.aot.graph_calls import name_of_target, written_arguments
from nbcompile.support import versions

OF_HISTORY = "the graph detaches an input in place: AOTAutograd does not detach the caller's"
OF_WRAPPER = "the graph changes sizes or strides of a tensor subclass in place: AOTAutograd does not support that"
OF_VIEW = "the graph changes sizes or strides of a tensor with a history in place, behind a view of it"
OF_UNKNOWN_MEMORY = "the graph changes sizes or strides of a view in place, and the size of its memory is no input"
COMPARES_WITH_MEMORY = versions.torch_version() >= (2, 15)
"""True if an operator that changes sizes in place compares them with the size of the memory, a symbol of its own."""


def eager_reason(module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> str:
    """The reason why AOTAutograd cannot make the changes of a captured graph; "" if it can."""
    nodes = module.graph.nodes
    if any(name_of_target(node) == "detach_" and any(map(_is_input, written_arguments(node))) for node in nodes):
        return OF_HISTORY
    if any(map(torch_internals.is_wrapper, example_inputs)) and any(map(changes_metadata, nodes)):
        return OF_WRAPPER
    if COMPARES_WITH_MEMORY and any(map(changes_metadata, nodes)) and _has_unknown_memory(module, example_inputs):
        return OF_UNKNOWN_MEMORY
    return OF_VIEW if any(map(_has_view_with_history, filter(changes_metadata, nodes))) else ""


def changes_metadata(node: torch.fx.Node) -> bool:
    """Return whether a call changes sizes or strides of its first argument itself: ``unsqueeze_``, ``t_``, ``set_``."""
    name = name_of_target(node)
    packet = getattr(torch.ops.aten, name, None) if name.endswith("_") else None
    return packet is not None and any(
        torch.Tag.inplace_view in getattr(packet, overload).tags for overload in packet.overloads()
    )


def _has_unknown_memory(module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> bool:
    """Return whether a call changes an input whose memory has a size that sizes, strides and offsets do not give."""
    known = {symbol for example in example_inputs for symbol in torch_internals.symbols_in_order(example)}
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    changed = {before_writes(node) for node in filter(changes_metadata, module.graph.nodes)}
    memory = (
        example.untyped_storage().nbytes()
        for node, example in zip(placeholders, example_inputs, strict=True)
        if node in changed and isinstance(example, torch.Tensor) and example.layout is torch.strided
    )
    return any(not known.issuperset(torch_internals.symbols_in_order(size)) for size in memory)


def before_writes(node: torch.fx.Node) -> torch.fx.Node:
    """The node whose value an operator in place returns: ``x`` of ``x.add_(1).t_()``."""
    while written := written_arguments(node):
        node = written[0]
    return node


def _is_input(node: torch.fx.Node) -> bool:
    """Return whether a node is an input of the graph, perhaps after operators in place."""
    return before_writes(node).op == "placeholder"


def _has_view_with_history(change: torch.fx.Node) -> bool:
    """Return whether another tensor shares the memory of what a call changes, and gradients go through both."""
    value = change.meta.get("example_value")
    users: list[torch.fx.Node] = []
    node = change
    while written := written_arguments(node):  # also behind operators in place, each of which is a node of its own
        node = written[0]
        users += node.users
    others = [user.meta.get("example_value") for user in users if not written_arguments(user)]
    return (
        isinstance(value, torch.Tensor)
        and value.requires_grad
        and any(
            isinstance(other, torch.Tensor) and other.untyped_storage()._cdata == value.untyped_storage()._cdata
            for other in others
        )
    )
