"""Operators that return their argument itself: users of the result are given the argument instead.

    dropout(x, 0.5, False).mul_(3)      in eager mode x is written, and x is the result
    x.mul_(3)                           the same for AOTAutograd, which decomposes dropout to a copy

The fake tensors of the captured graph show which operators do: the result's fake tensor is the argument's.

In torch: nothing; torch.compile does not write x, and returns a copy. Read next: nbcompile/aot/compile.py
"""

from __future__ import annotations

import torch
import torch.fx

from nbcompile.aot.graph_calls import is_in_place
from nbcompile.capture.node_meta import EXAMPLE


def with_arguments_for_results(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The module itself; or a copy, if some of its operators return their argument."""
    returned = [(node.name, _returned(node)) for node in module.graph.nodes]
    names = [(name, argument.name) for name, argument in returned if argument is not None]
    if not names:
        return module
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    graph.output(graph.graph_copy(module.graph, copies))
    by_name = {node.name: copy for node, copy in copies.items()}
    for name, argument in names:  # in the order of the graph: an argument may be a result that was replaced
        by_name[name].replace_all_uses_with(by_name[argument])
        by_name[name] = by_name[argument]
    copied = torch.fx.GraphModule(module, graph)
    copied.meta.update(module.meta)
    return copied


def _returned(node: torch.fx.Node) -> torch.fx.Node | None:
    """The argument that a call returns; None for an in-place call, which AOTAutograd handles itself."""
    example = node.meta.get(EXAMPLE)
    if not node.op.startswith("call_") or not isinstance(example, torch.Tensor) or is_in_place(node):
        return None
    # The same object: a view, or a copy, has its own fake tensor.
    return next((argument for argument in node.all_input_nodes if argument.meta.get(EXAMPLE) is example), None)
