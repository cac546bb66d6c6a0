"""Decompositions of operators that copy what a view would show: the view, and a contiguous clone of it.

    aten.diagonal_copy(x, 1)   ->   aten.clone(aten.diagonal(x, 1))     a loop, which fuses with its neighbours

In torch: torch/_refs/__init__.py (the functions whose names end in _copy). Read next: nbcompile/lowering/views.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map

aten = torch.ops.aten


def _reshaped(x: torch.Tensor, size: Sequence[Any], *_: object) -> torch.Tensor:
    # The operator accepts sizes that no view of the tensor can have: it copies all the same.
    return torch.reshape(x, tuple(size))


def _itself(x: torch.Tensor) -> torch.Tensor:
    return x


# ATen runs those of another dtype (view_copy.dtype, view_as_real_copy), as lowering/ has no such views, and
# _reshape_alias_copy, whose strides nothing checks.
VIEWS: Mapping[str, Callable[..., Any]] = {
    "alias_copy.default": _itself, "detach_copy.default": _itself,
    "view_copy.default": _reshaped, "_reshape_copy.default": _reshaped,
    "as_strided_copy.default": aten.as_strided.default, "diagonal_copy.default": aten.diagonal.default,
    "expand_copy.default": aten.expand.default, "narrow_copy.default": aten.narrow.default,
    "permute_copy.default": aten.permute.default, "select_copy.int": aten.select.int,
    "slice_copy.Tensor": aten.slice.Tensor, "split_copy.Tensor": aten.split.Tensor,
    "split_with_sizes_copy.default": aten.split_with_sizes.default, "squeeze_copy.default": aten.squeeze.default,
    "squeeze_copy.dim": aten.squeeze.dim, "squeeze_copy.dims": aten.squeeze.dims, "t_copy.default": aten.t.default,
    "transpose_copy.int": aten.transpose.int, "unbind_copy.int": aten.unbind.int,
    "unfold_copy.default": aten.unfold.default, "unsqueeze_copy.default": aten.unsqueeze.default,
}  # fmt: skip
"""The view that each operator copies."""


def table() -> dict[torch._ops.OpOverload, Callable[..., object]]:
    """Decompositions of these operators; a version of torch may lack some."""
    found = {}
    for name, view in VIEWS.items():
        packet, _, overload = name.partition(".")
        if hasattr(aten, packet) and overload in getattr(aten, packet).overloads():
            found[getattr(getattr(aten, packet), overload)] = _copied(view)
    return found


def _copied(view: Callable[..., Any]) -> Callable[..., object]:
    def decompose(*arguments: object, **keywords: object) -> object:
        # Eager mode copies each view into contiguous memory, whatever the strides of the view.
        return tree_map(_clone, view(*arguments, **keywords))

    return decompose


def _clone(view: torch.Tensor) -> torch.Tensor:
    return view.clone(memory_format=torch.contiguous_format)
