"""Writes to self-overlapping views: tensors two elements of which are one number in memory.

    column = torch.zeros(1)
    row = column.expand(3)        # strides (0,): three elements, one address
    row.fill_(1)                  # eager: column is 1.  Functionalised: 3, the sum over the elements of the view

Functionalisation replaces a write to a view by a new value of its base, computed by the view's inverse. For a view
that overlaps itself the inverse adds up what was written to each element: such a graph falls back to eager.

In torch: nothing; torch.compile adds up the elements, or raises an error. Read next: nbcompile/aot/compile.py
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import torch
import torch.fx
from torch.utils import _pytree as pytree

from nbcompile import torch_internals
from nbcompile.aot.graph_calls import name_of_target, written_arguments

REASON = (
    "the graph writes to a tensor that overlaps itself in memory, or as if it did; AOTAutograd would add up the writes"
)

NOT_INVERTED = frozenset({"expand", "expand_as", "broadcast_to", "broadcast_tensors", "meshgrid", "unfold"})
"""Views whose writes AOTAutograd adds to the base, or to zeros, also where no element comes twice: x + (new - x)."""


def writes_to_self_overlapping_view(module: torch.fx.GraphModule) -> bool:
    """Return whether a captured graph may write to a view that overlaps itself (such as one of ``expand``)."""
    graphs = [each.graph for each in module.modules() if isinstance(each, torch.fx.GraphModule)]
    return any(
        _has_self_overlapping_base(target) or _is_filled_through_a_view(node, target)
        for graph in graphs
        for node in graph.nodes
        for target in written_arguments(node)
    )


def storages(node: torch.fx.Node) -> Iterator[int]:
    """Storages of a node's value, by address: a view has its base's."""
    for value in _tensors(node):
        with suppress(NotImplementedError):  # a sparse tensor, or one under a transform of torch.func
            yield value.untyped_storage()._cdata


def _has_self_overlapping_base(target: torch.fx.Node) -> bool:
    target_storages, worklist, seen = set(storages(target)), [target], set()
    while worklist:
        node = worklist.pop()
        # Up the chain of views: only arguments on the same memory can be its bases.
        if node in seen or target_storages.isdisjoint(storages(node)):
            continue
        if any(map(_may_self_overlap, _tensors(node))):
            return True
        if node.op == "placeholder":
            for value in _tensors(node):
                _guard_nested(value)
        if name_of_target(node) in NOT_INVERTED and _is_view(node):
            return True
        seen.add(node)
        worklist += node.all_input_nodes
    return False


def _is_filled_through_a_view(node: torch.fx.Node, target: torch.fx.Node) -> bool:
    """``fill_diagonal_`` goes through ``as_strided``, of which AOTAutograd knows no inverse but for a whole tensor."""
    return name_of_target(node) == "fill_diagonal_" and (
        _is_view(target) or any(not value.is_contiguous() or value.storage_offset() != 0 for value in _tensors(target))
    )


def _is_view(node: torch.fx.Node) -> bool:
    """Return whether a node's value is in the memory of one of its arguments."""
    own = set(storages(node))
    return any(not own.isdisjoint(storages(argument)) for argument in node.all_input_nodes)


def _may_self_overlap(tensor: torch.Tensor) -> bool:
    """Return whether two elements may have one address.

    Sorted by stride, the dimensions of a tensor without self-overlap are nested: each stride is larger than the
    distance between the first and the last element of all dimensions before it.

        sizes (2, 3), strides (3, 1)    1 > 0, end 2;  3 > 2, end 5         no overlap
        sizes (4, 3), strides (1, 1)    1 > 0, end 2;  1 <= 2               an overlap
    """
    if tensor.layout is not torch.strided or torch_internals.is_wrapper(tensor) or 0 in tensor.shape:
        return False
    # Of symbolic sizes the examples are compared: to compare the sizes themselves would add guards.
    example = torch_internals.example_of
    end = 0
    for stride, size in _by_stride(tensor):
        if example(stride) <= end:
            return True
        end += example(stride) * (example(size) - 1)
    return False


def _guard_nested(tensor: torch.Tensor) -> None:
    """Guard that an input whose strides are symbols does not overlap itself in a later call.

    A view of it does not either, but for those of ``NOT_INVERTED``: so only inputs need such guards.
    """
    numbers = (*tensor.stride(), *tensor.shape)
    if not any(isinstance(stride, torch.SymInt) for stride in tensor.stride()) or any(
        map(torch_internals.is_unbacked, numbers)
    ):
        return
    end: Any = 0
    for stride, size in _by_stride(tensor):
        if not stride > end:
            return
        end += stride * (size - 1)


def _by_stride(tensor: torch.Tensor) -> list[tuple[Any, Any]]:
    """Strides and sizes, the smallest stride first, of the dimensions that have more than one element."""
    example = torch_internals.example_of
    pairs = zip(tensor.stride(), tensor.shape, strict=True)
    dimensions = [(stride, size) for stride, size in pairs if example(size) > 1]
    return sorted(dimensions, key=lambda dimension: (example(dimension[0]), example(dimension[1])))


def _tensors(node: torch.fx.Node) -> Iterator[torch.Tensor]:
    for value in pytree.tree_leaves(node.meta.get("example_value")):
        if isinstance(value, torch.Tensor):
            yield value
