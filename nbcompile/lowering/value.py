"""Lazy values: tensors that are not computed yet, as a size and a body that computes one element.

    x + 1          Value(size=(4, 8), body=x[i0, i1] + 1.0)
    (x + 1).t()    Value(size=(8, 4), body=x[i1, i0] + 1.0)       reindexed(), no new buffer

In torch: torch/_inductor/ir.py (TensorBox, StorageBox, the views). Read next:
nbcompile/lowering/builder.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from nbcompile.ir.expr import Apply, Constant, Expr, Gather, IndexOf, Load, cast, compute_dtype
from nbcompile.ir.index import (
    ZERO,
    Index,
    Ranges,
    Symbol,
    indices,
    is_one,
    known_equal,
    loop_variable,
    loop_variables,
    simplify,
)
from nbcompile.ir.traversal import substitute
from nbcompile.lowering.registry import NoLowering


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor as a body over ``i0 < size[0], i1 < size[1], ...``.

    The body has the dtype that the kernel computes in: float32 where the
    tensor is bfloat16 or float16.
    """

    dtype: torch.dtype
    device: torch.device
    size: tuple[Index, ...]
    body: Expr
    from_nodes: tuple[str, ...] = ()
    """The fx nodes that the body computes."""

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.size)

    def ranges(self) -> Ranges:
        """The size of each loop variable."""
        return {loop_variable(at): size for at, size in enumerate(self.size)}


def load(buffer: str, dtype: torch.dtype, device: torch.device, size: Sequence[Index]) -> Value:
    """The whole of a buffer."""
    body = Load(buffer, loop_variables(len(size)), dtype)
    return Value(dtype, device, tuple(size), cast(body, compute_dtype(dtype)))


def reindexed(
    value: Value, size: Sequence[Index], position: Sequence[Index], gathers: tuple[Gather, ...] = ()
) -> Value:
    """Reindex a value: the element at ``(i0, i1, ...)`` of the result is the value's element at ``position``."""
    # Indices that do not change are left out: with none, the body is shared and not rebuilt.
    mapping: dict[Symbol, Index] = {
        loop_variable(axis): index for axis, index in enumerate(position) if index != loop_variable(axis)
    }
    new_ranges = {loop_variable(axis): extent for axis, extent in enumerate(size)}
    body = (
        substitute(value.body, mapping, gathers, lambda index: simplify(index, new_ranges)) if mapping else value.body
    )
    return Value(value.dtype, value.device, tuple(size), body, value.from_nodes)


def single_load(value: Value) -> Load | None:
    """The load that a value consists of, if it is a single one (a view of a buffer); else None."""
    body = value.body
    # A load of bfloat16 is cast to float32, in which kernels compute; the value is still the buffer's element.
    if isinstance(body, Apply) and body.op == "cast" and body.dtype == compute_dtype(value.dtype):
        body = body.args[0]
    return body if isinstance(body, Load) and body.dtype == value.dtype else None


def is_free(value: Value) -> bool:
    """Return whether recomputing an element is free: a load, a constant, an index, or a cast of one of these."""
    body = value.body
    while isinstance(body, Apply) and body.op == "cast":
        body = body.args[0]
    return isinstance(body, (Load, Constant, IndexOf)) and not getattr(body, "gathers", ())


def broadcast_size(*sizes: Sequence[Index]) -> tuple[Index, ...]:
    """The shape that torch broadcasts shapes to."""
    ndim = max(map(len, sizes), default=0)
    result: list[Index] = []
    for axis in range(ndim):
        extents = [size[axis - ndim + len(size)] for size in sizes if axis - ndim + len(size) >= 0]
        not_one = [extent for extent in extents if not is_one(extent)]
        if any(not known_equal(not_one[0], other) for other in not_one[1:]):
            raise NoLowering(f"sizes {not_one} of one dimension cannot be shown to be equal")
        result.append(not_one[0] if not_one else extents[0])
    return tuple(result)


def broadcast_to(value: Value, size: Sequence[Index]) -> Value:
    """Broadcast to a size with at least as many dimensions."""
    if value.size == tuple(size):
        return value
    missing = len(size) - value.ndim
    # All iterations read element 0 of a dimension of size 1. Missing dimensions are the leading ones:
    #      value   (3, 1)        position   i1, 0
    #      size    (2, 3, 4)     loops      i0, i1, i2
    position = [ZERO if is_one(extent) else loop_variable(at + missing) for at, extent in enumerate(value.size)]
    return reindexed(value, size, position)


def merge_nodes(*parts: tuple[str, ...]) -> tuple[str, ...]:
    """Merge names without duplicates. The last name stays last: it is the node that is being lowered."""
    names = [name for part in parts for name in part]
    return tuple(reversed(dict.fromkeys(reversed(names))))


def shape_of(tensor: torch.Tensor) -> tuple[Index, ...]:
    """The size of a (fake) tensor."""
    return indices(tensor.shape)
