"""Detects writes through ``x.data``, of which autograd is not to know.

    y = x * x
    x.data.add_(1)                # eager: x._version stays, and the derivative of y exists
                                  # compiled: one write of x, which autograd sees; the derivative of y is an error

AOTAutograd writes the new value to the input itself. Such a graph runs operator by operator, as it was captured.

In torch: nothing; torch.compile counts the write. Read next: nbcompile/aot/compile.py
"""

from __future__ import annotations

import torch
import torch.fx

from nbcompile.aot.self_overlapping_writes import mutated_argument, storages

REASON = "the graph writes to a tensor's attribute data, unseen by autograd; AOTAutograd would let autograd see it"
_GET_DATA = torch._C._autograd._get_data_attr  # type: ignore[attr-defined]


def writes_through_data(module: torch.fx.GraphModule) -> bool:
    """Return whether a captured graph writes to the storage of what ``x.data`` gave."""
    graphs = [each.graph for each in module.modules() if isinstance(each, torch.fx.GraphModule)]
    nodes = [node for graph in graphs for node in graph.nodes]
    hidden = {storage for node in nodes if node.target is _GET_DATA for storage in storages(node)}
    return bool(hidden) and any(not hidden.isdisjoint(storages(mutated_argument(node))) for node in nodes)
