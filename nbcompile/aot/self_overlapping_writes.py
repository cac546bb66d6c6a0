"""What a captured call writes into, and whether that lies in the same memory more than once.

    column = torch.zeros(1)
    row = column.expand(3)        # three elements, one number
    row.fill_(1)                  # eager: column is 1.  Made functional: 3 - 2 * 0, the sum of what each element got

AOTAutograd replaces a write to a view by a new value of the base, made from the view's. It does not expect a view to
have an element twice: such a graph runs operator by operator, as it was captured.

In torch: nothing; torch.compile adds up what the elements got, or raises an error. Read next: nbcompile/aot/compile.py
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import torch
import torch.fx
from torch.utils import _pytree as pytree

from nbcompile import torch_internals
from nbcompile.aot.pure import works_in_place

REASON = "a tensor is written that has one place in memory more than once; AOTAutograd would add up what it got"


def writes_to_self_overlapping_view(module: torch.fx.GraphModule) -> bool:
    """Whether a captured graph writes through a view two elements of which may be one number."""
    graphs = [each.graph for each in module.modules() if isinstance(each, torch.fx.GraphModule)]
    return any(
        _has_self_overlapping_base(target)
        for graph in graphs
        for node in graph.nodes
        if (target := mutated_argument(node))
    )


def mutated_argument(node: torch.fx.Node) -> torch.fx.Node | None:
    """What a node writes into."""
    if isinstance(out := node.kwargs.get("out"), torch.fx.Node):
        return out
    base = node.args[0] if node.args and works_in_place(node) else None
    return base if isinstance(base, torch.fx.Node) else None


def storages(node: torch.fx.Node | None) -> Iterator[int]:
    """The memory of a node's value: a view has that of its base."""
    for value in _tensors(node):
        with suppress(NotImplementedError):  # a sparse tensor, or one under a transform of torch.func
            yield value.untyped_storage()._cdata


def _has_self_overlapping_base(target: torch.fx.Node) -> bool:
    target_storages, worklist, seen = set(storages(target)), [target], set()
    while worklist:
        node = worklist.pop()
        if node in seen or target_storages.isdisjoint(storages(node)):
            continue
        if any(map(_may_self_overlap, _tensors(node))):
            return True
        seen.add(node)
        worklist += node.all_input_nodes
    return False


def _may_self_overlap(tensor: torch.Tensor) -> bool:
    """Whether two elements may have one address: no order of its dimensions keeps them apart."""
    if tensor.layout is not torch.strided or torch_internals.is_wrapper(tensor) or 0 in tensor.shape:
        return False
    example = torch_internals.example_of
    dimensions = [(example(stride), example(size)) for stride, size in zip(tensor.stride(), tensor.shape, strict=True)]
    end = 0
    for stride, size in sorted(each for each in dimensions if each[1] > 1):
        if stride <= end:
            return True
        end += stride * (size - 1)
    return False


def _tensors(node: torch.fx.Node | None) -> Iterator[torch.Tensor]:
    for value in [] if node is None else pytree.tree_leaves(node.meta.get("example_value")):
        if isinstance(value, torch.Tensor):
            yield value
