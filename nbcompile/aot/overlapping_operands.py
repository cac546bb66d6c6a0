"""Operators that read memory which they write: eager reads some of it before the write, some of it after.

    F.batch_norm(x, mean, var, weight=var, training=True)    eager updates var, and multiplies by the new one
    a.addmm_(a, b)                                           eager multiplies numbers that it has written
    a.sub_(a[:, :1])                                         the first column is 0 before others read it

A functional graph reads all operands before it writes. So such a graph falls back to eager, and raises an error where
eager does. A pointwise operator with operands at equal addresses reads each number before it writes it:
``a.mul_(a)`` is exact.

In torch: aten/src/ATen/MemoryOverlap.cpp raises the errors; torch.compile reads all first. Read next:
nbcompile/aot/self_overlapping_writes.py
"""

from __future__ import annotations

import itertools
import operator
from typing import Any, TypeGuard

import torch
import torch.fx
from torch.utils import _pytree as pytree

from nbcompile import torch_internals
from nbcompile.aot.graph_calls import IN_PLACE_OPERATORS, name_of_target, written_arguments
from nbcompile.aot.memory_distance import same_layout, share_bytes
from nbcompile.aot.self_overlapping_writes import storages

REASON = "an operator of the graph writes memory that it also reads as another operand; AOTAutograd would read it first"

_NORMS = frozenset({
    "batch_norm", "instance_norm", "native_batch_norm", "_batch_norm_impl_index", "_native_batch_norm_legit",
    "_batch_norm_with_update", "cudnn_batch_norm", "miopen_batch_norm",
})  # fmt: skip
"""Operators that update running statistics, and read weight and bias afterwards."""


def reads_what_it_writes(module: torch.fx.GraphModule) -> bool:
    """Return whether an operator of a captured graph writes to memory that another operand of it reads."""
    graphs = [part.graph for part in module.modules() if isinstance(part, torch.fx.GraphModule)]
    return any(_reads_what_it_writes(node) for graph in graphs for node in graph.nodes)


def _reads_what_it_writes(node: torch.fx.Node) -> bool:
    if not node.op.startswith("call_"):
        return False
    name = name_of_target(node)
    operands = _nodes((node.args, node.kwargs))
    # Which operand is written depends on the function and on its flags: so no two of them may overlap.
    if name in _NORMS:
        return any(_overlap(one, other) for one, other in itertools.combinations(operands, 2))
    # Eager updates the tensors of the list one after the other: a tensor that is in it twice is updated
    # from its new value the second time, and a functional graph would compute both from the old one.
    if name.startswith("_foreach_") and name.endswith("_"):
        written = _nodes(node.args[:1])
        return len(set(written)) < len(written)
    if node.target is operator.setitem:
        return _assigns_what_it_reads(node)
    pointwise = _is_pointwise(node, name)
    for target in written_arguments(node):
        others = operands.copy()
        others.remove(target)
        if any(_overlap(target, other) and not (pointwise and _at_same_offsets(target, other)) for other in others):
            return True
    return False


def _assigns_what_it_reads(node: torch.fx.Node) -> bool:
    """``a[1:] = a[:-1]``: the index selects the part that is written, a view or single elements."""
    target, index, value = node.args
    if not (isinstance(target, torch.fx.Node) and _is_strided(target.meta.get("example_value"))):
        return False
    parts = torch.fx.node.map_arg(index, lambda node: node.meta.get("example_value"))
    if not all(map(_makes_view, parts if isinstance(parts, tuple) else (parts,))):
        # Single elements: their positions are known only at run time, so all of the target counts as written.
        # A mask among the indices is read first in eager, too: it is converted to positions before the write.
        numbers = [one for one in _nodes(index) if getattr(one.meta.get("example_value"), "dtype", None) != torch.bool]
        return any(_overlap(target, one) for one in [*numbers, *_nodes(value)])
    written = _part(target.meta["example_value"], parts)
    sources = [read for read in _nodes(value) if not set(storages(target)).isdisjoint(storages(read))]
    # Basic indexing: the written part is a view. ``a[1:] = a[1:]`` copies each number to itself, and is exact.
    return bool(sources) and (
        written is None or any(_overlaps_elsewhere(written, read.meta.get("example_value")) for read in sources)
    )


def _overlaps_elsewhere(written: torch.Tensor, read: object) -> bool:
    """True if what is read shares memory with what is written, and is not the same part of it."""
    return _is_strided(read) and share_bytes(written, read) and not same_layout(written, read)


def _makes_view(part: object) -> bool:
    return part is None or part is ... or isinstance(part, slice) or _is_number(part)


def _is_number(part: object) -> bool:
    return isinstance(part, (int, torch.SymInt)) and not isinstance(part, bool)


def _part(tensor: torch.Tensor, index: Any) -> torch.Tensor | None:
    """The part of a fake tensor that an index of numbers and slices selects; None if its size is unbacked."""
    try:
        return tensor.detach()[index]
    except Exception as error:
        if torch_internals.is_data_dependent_guard(error):
            return None
        raise


def _nodes(arguments: object) -> list[torch.fx.Node]:
    return [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, torch.fx.Node)]


def _is_pointwise(node: torch.fx.Node, name: str) -> bool:
    """True if each element depends only on those at its offset; an operator without an ATen name counts as such."""
    base = name[1:] if node.target in IN_PLACE_OPERATORS else name.rstrip("_")
    packet = getattr(torch.ops.aten, base, None)
    if packet is None or base == "copy":
        return True
    return any(torch.Tag.pointwise in getattr(packet, overload).tags for overload in packet.overloads())


def _at_same_offsets(one: torch.fx.Node, other: torch.fx.Node) -> bool:
    return one is other or same_layout(one.meta["example_value"], other.meta["example_value"])


def _overlap(one: torch.fx.Node, other: torch.fx.Node) -> bool:
    """True if two tensors have a byte in common."""
    first, second = one.meta.get("example_value"), other.meta.get("example_value")
    if not (_is_strided(first) and _is_strided(second)) or set(storages(one)).isdisjoint(storages(other)):
        return False
    return share_bytes(first, second)


def _is_strided(value: object) -> TypeGuard[torch.Tensor]:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided and not torch_internals.is_wrapper(value)
