"""Small rewrites of the joint graph, before it is cut into forward and backward.

    relu = aten.relu(x);  saved = aten.detach(relu)     ->     relu = aten.relu(x)
    backward reads  aten.detach(saved)                         backward reads  relu

In torch: torch/_inductor/fx_passes/joint_graph.py. Read next:
nbcompile/lowering/
"""

from __future__ import annotations

import torch
import torch.fx


def drop_detach(joint: torch.fx.GraphModule) -> None:
    """Saved tensors are detached for autograd's sake, and autograd is not involved inside a compiled graph.

    What is returned to the user stays, as the user may hold it beside the original.
    """
    for node in joint.graph.find_nodes(op="call_function", target=torch.ops.aten.detach.default):
        if any(user.op == "output" for user in node.users):
            continue
        (original,) = node.args
        node.replace_all_uses_with(original)
        joint.graph.erase_node(node)
    joint.recompile()
