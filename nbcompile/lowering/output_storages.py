"""Storages of a graph's outputs: which outputs share one in eager mode, and must share it here.

    y = x.exp()
    return y, y[0]       one storage: the second is a view of the first here, too

In torch: torch/_functorch/_aot_autograd/functional_utils.py. Read next: nbcompile/lowering/graph.py
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from nbcompile.ir import buffer as ir
from nbcompile.ir.layout import of_tensor, same_addresses
from nbcompile.lowering.realization import ALIASING


def has_other_strides(view: ir.BufferView, predicted: torch.Tensor) -> bool:
    """Return whether a copy has other strides than its source: a loop would have to move the elements."""
    expected = of_tensor(predicted)
    return not same_addresses(replace(view.layout, offset=expected.offset), expected)


def as_distinct_tensors(returned: Sequence[Any], outputs: list[Any]) -> list[Any]:
    """Make outputs of several nodes several tensor objects, also where all are the same buffer."""
    #     return y, y            one node: the same object twice, in eager mode too
    #     return y, y.view(4)    two nodes: two tensors over one buffer
    owners: dict[ir.BufferView, Any] = {}
    return [
        replace(output, distinct=True)
        if isinstance(output, ir.BufferView) and owners.setdefault(output, node) is not node
        else output
        for node, output in zip(returned, outputs, strict=True)
    ]


def storages_shared_by_outputs(graph: fx.Graph) -> frozenset[int]:
    """Storages, by FakeTensor, that several outputs are views of: they must share one buffer."""
    (output,) = graph.find_nodes(op="output")
    returned = output.args[0] if isinstance(output.args[0], (tuple, list)) else (output.args[0],)
    storage_counts = Counter(storage_of(each) for each in dict.fromkeys(returned) if isinstance(each, fx.Node))
    input_storages = {storage_of(node) for node in graph.find_nodes(op="placeholder")}
    return frozenset(
        storage
        for storage, count in storage_counts.items()
        if count > 1 and storage is not None and storage not in input_storages
    )


def storage_of(node: fx.Node) -> int | None:
    """The storage of a node's fake tensor, as a number; None if it has none."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return None
    return int(value.untyped_storage()._cdata)


def needs_own_memory(node: fx.Node) -> bool:
    """Return whether a copy must be a real one: it, or a view of it, is an output, or what ATen takes a view of."""
    return any(
        user.op == "output" or (needs_own_memory(user) if user.target in ALIASING else _is_viewed_by_aten(node, user))
        for user in node.users
    )


def _is_viewed_by_aten(node: fx.Node, user: fx.Node) -> bool:
    """Return whether an operator without a lowering returns memory of a node, or writes to it (``view.dtype``).

    ``copy_`` does so of the tensor that it writes to, not of the one that it reads.
    """
    schema = getattr(user.target, "_schema", None)
    if schema is None:
        return False
    given = (*user.args, *(user.kwargs.get(argument.name) for argument in schema.arguments[len(user.args) :]))
    return any(
        value is node and argument.alias_info is not None
        for value, argument in zip(given, schema.arguments, strict=True)
    )
