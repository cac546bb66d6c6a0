"""Detects changes of an input's sizes, strides or history in place that AOTAutograd does not make, or makes wrongly.

    x.t_().mul_(2)       sizes and values: the graph cannot copy the new values into an input that has the old sizes,
                         so the wrapper around the graph writes them
    x.detach_()          the caller's x would keep its history      } such a graph runs operator by operator,
    w.unsqueeze_(0)      w holds other tensors (a wrapper)          } as it was captured
    v = h.view(-1)       h has a history: to return v, AOTAutograd  }
    h.t_()               would make the view again, of the new h    }

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

OF_HISTORY = "the graph detaches an input in place: AOTAutograd does not detach the caller's"
OF_WRAPPER = "the graph changes sizes or strides of a tensor subclass in place: AOTAutograd does not support that"
OF_VIEW = "the graph changes sizes or strides of a tensor with a history in place, behind a view of it"


def eager_reason(module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> str:
    """The reason why AOTAutograd cannot make the changes of a captured graph; "" if it can."""
    nodes = module.graph.nodes
    if any(name_of_target(node) == "detach_" and any(map(_is_input, written_arguments(node))) for node in nodes):
        return OF_HISTORY
    if any(map(torch_internals.is_wrapper, example_inputs)) and any(map(changes_metadata, nodes)):
        return OF_WRAPPER
    return OF_VIEW if any(map(_has_view_with_history, filter(changes_metadata, nodes))) else ""


def changes_metadata(node: torch.fx.Node) -> bool:
    """Return whether a call changes sizes or strides of its first argument itself: ``unsqueeze_``, ``t_``, ``set_``."""
    name = name_of_target(node)
    packet = getattr(torch.ops.aten, name, None) if name.endswith("_") else None
    return packet is not None and any(
        torch.Tag.inplace_view in getattr(packet, overload).tags for overload in packet.overloads()
    )


def _is_input(node: torch.fx.Node) -> bool:
    """Return whether a node is an input of the graph, perhaps after operators in place."""
    while written := written_arguments(node):
        node = written[0]
    return node.op == "placeholder"


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
