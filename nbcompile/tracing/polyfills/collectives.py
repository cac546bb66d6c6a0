"""Collectives that write a tensor they are given, written with the functional operators that the graph has.

    torch.distributed.all_reduce(y)    y.copy_(wait_tensor(all_reduce(y, "sum", "0")))

In torch: traceable_collective_remaps in torch/distributed/_functional_collectives.py. Read next:
nbcompile/tracing/calls/collectives.py
"""

# Nothing here runs by itself: the tracer reads the bytecode.
from __future__ import annotations

from typing import Any

import torch


def _named(group: Any) -> Any:
    return (torch.distributed.group.WORLD if group is None else group).group_name


def all_reduce(tensor: Any, op: str, group: Any) -> None:
    """``torch.distributed.all_reduce``."""
    functions = torch.ops._c10d_functional
    tensor.copy_(functions.wait_tensor(functions.all_reduce(tensor, op, _named(group))))


def all_gather_into(output: Any, given: Any, size: int, group: Any) -> None:
    """``torch.distributed.all_gather_into_tensor``: one after the other."""
    functions = torch.ops._c10d_functional
    output.copy_(functions.wait_tensor(functions.all_gather_into_tensor(given, size, _named(group))))


def all_gather(outputs: Any, given: Any, size: int, group: Any) -> None:
    """``torch.distributed.all_gather`` of tensors of one shape."""
    functions = torch.ops._c10d_functional
    gathered = functions.wait_tensor(functions.all_gather_into_tensor(given, size, _named(group)))
    rows = given.size(0)
    # All are taken before the first is written, as in torch's graph.
    parts = [gathered[at * rows : (at + 1) * rows] for at in range(size)]
    for output, part in zip(outputs, parts, strict=True):
        output.copy_(part)


def reduce_scatter_into(output: Any, given: Any, op: str, size: int, group: Any) -> None:
    """``torch.distributed.reduce_scatter_tensor``: a part for each rank."""
    functions = torch.ops._c10d_functional
    output.copy_(functions.wait_tensor(functions.reduce_scatter_tensor(given, op, size, _named(group))))


def all_to_all_single(output: Any, given: Any, output_sizes: Any, input_sizes: Any, size: int, group: Any) -> None:
    """``torch.distributed.all_to_all_single``."""
    functions = torch.ops._c10d_functional
    outgoing = input_sizes or [given.shape[0] // size] * size
    incoming = output_sizes or [output.shape[0] // size] * size
    output.copy_(functions.wait_tensor(functions.all_to_all_single(given, incoming, outgoing, _named(group))))
