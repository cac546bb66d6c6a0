"""Activation checkpoints in a graph that falls back to eager: recomputation draws the same random numbers.

    captured   tag_activation_checkpoint(wrap_body_0, x)     for AOTAutograd, which traces it and draws once
    eager      torch.utils.checkpoint.checkpoint(body, x)    the user's call, around the graph of the body

Called in eager mode, torch's operator recomputes the body in backward with new random numbers: the gradient would
belong to another dropout mask than the loss.

In torch: torch/_higher_order_ops/wrap.py (TagActivationCheckpoint; ``backend="eager"`` draws anew). Read next:
nbcompile/backends/builtin.py
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx
from torch.utils import checkpoint

from nbcompile import torch_internals

OPERATOR = torch.ops.higher_order.tag_activation_checkpoint


def with_eager_checkpoints(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The captured graph itself, or a copy in which each checkpoint is a call of ``torch.utils.checkpoint``."""
    graphs = [each.graph for each in module.modules() if isinstance(each, torch.fx.GraphModule)]
    if not any(graph.find_nodes(op="call_function", target=OPERATOR, sort=False) for graph in graphs):
        return module
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    copied = torch.fx.GraphModule(module, graph)
    for name, child in module.named_children():
        setattr(copied, name, with_eager_checkpoints(child) if isinstance(child, torch.fx.GraphModule) else child)
    for node in graph.find_nodes(op="call_function", target=OPERATOR):
        node.target = _eager_checkpoint
    copied.recompile()
    copied.meta.update(module.meta)
    return copied


def _eager_checkpoint(body: torch.fx.GraphModule, *arguments: Any, **settings: Any) -> Any:
    def run(*inputs: Any) -> Any:
        return body(*inputs)

    torch_internals.hide_from_hook(run.__code__)
    contexts = body.meta.get("_checkpoint_context_fn")
    if contexts is not None:
        settings["context_fn"] = contexts
    settings["use_reentrant"] = False  # as torch's operator has it
    return checkpoint.checkpoint(run, *arguments, **settings)
