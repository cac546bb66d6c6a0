"""Detects writes of which autograd is not to know: through ``x.data``, or with the version put back.

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

REASON = "the graph writes to an input, unseen by autograd (through `data`, or with its version preserved)"
_GET_DATA = torch._C._autograd._get_data_attr  # type: ignore[attr-defined]
_SET_VERSION = torch._C._autograd._unsafe_set_version_counter


def writes_unseen(module: torch.fx.GraphModule) -> bool:
    """Return whether a captured graph writes to what ``x.data`` gave, or puts the version of an input back."""
    graphs = [each.graph for each in module.modules() if isinstance(each, torch.fx.GraphModule)]
    nodes = [node for graph in graphs for node in graph.nodes]
    # x.data shares memory but no version counter with x. After functionalization a write to it is a write to x.
    hidden = {storage for node in nodes if node.target is _GET_DATA for storage in storages(node)}
    inputs = {storage for node in nodes if node.op == "placeholder" for storage in storages(node)}
    preserved = (each for node in nodes if node.target is _SET_VERSION for each in node.all_input_nodes)
    hidden.update(inputs.intersection(storage for each in preserved for storage in storages(each)))
    return bool(hidden) and any(not hidden.isdisjoint(storages(mutated_argument(node))) for node in nodes)
