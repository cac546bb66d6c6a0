"""Detection of writes that are hidden from autograd: through ``x.data``, or with the version counter restored.

    y = x * x
    x.data.add_(1)                # eager: x._version stays, and the derivative of y exists
                                  # compiled: one write of x, which autograd sees; the derivative of y is an error

AOTAutograd writes the new value to the input itself. Such a graph runs operator by operator, as it was captured.

In torch: nothing; torch.compile counts the write. Read next: nbcompile/aot/compile.py
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import torch
import torch.fx

from nbcompile.aot.graph_calls import written_arguments
from nbcompile.aot.self_overlapping_writes import storages

REASON = "the graph writes to an input, unseen by autograd (through `data`, or with its version preserved)"
_GET_DATA = torch._C._autograd._get_data_attr  # type: ignore[attr-defined]
_SET_VERSION = torch._C._autograd._unsafe_set_version_counter


def _storages_of(nodes: Iterable[torch.fx.Node]) -> set[int]:
    return {storage for node in nodes for storage in storages(node)}


def writes_unseen(module: torch.fx.GraphModule) -> bool:
    """Return whether a captured graph writes to a result of ``x.data``, or restores the version of an input."""
    graphs = [part.graph for part in module.modules() if isinstance(part, torch.fx.GraphModule)]
    nodes = [node for graph in graphs for node in graph.nodes]
    # x.data shares memory but no version counter with x. After functionalization a write to it is a write to x.
    hidden = _storages_of(node for node in nodes if node.target is _GET_DATA)
    inputs = _storages_of(node for node in nodes if node.op == "placeholder")
    preserved = (node.all_input_nodes for node in nodes if node.target is _SET_VERSION)
    hidden |= inputs & _storages_of(itertools.chain.from_iterable(preserved))
    # A write to any view of a hidden storage counts: functionalisation tracks storages.
    return bool(hidden) and any(not hidden.isdisjoint(_storages_of(written_arguments(node))) for node in nodes)
