"""Shapes that an in-place operator on fake tensors accepts, and that the real operator rejects.

    torch.ones(2).eq_(torch.ones(3, 2))       the result has the shape [3, 2]; the written tensor has the shape [2]

The shape functions of many operators return the broadcast shape without a look at the tensor that is written. The graph
without mutation would then return a tensor of another shape, where eager mode raises.

In torch: check_inplace_broadcast in torch/_meta_registrations.py, for some operators. Read next: dtypes.py
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves


def check(function: torch._ops.OpOverload, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Raise eager mode's RuntimeError if the operands do not broadcast to the shape of the written tensor."""
    if not _writes_elementwise(function) or not isinstance(arguments[0], torch.Tensor):
        return
    written = arguments[0].shape
    for operand in tree_leaves((arguments[1:], keywords)):
        if isinstance(operand, torch.Tensor) and not _broadcasts(operand.shape, written):
            shape = list(torch.broadcast_shapes(operand.shape, written))
            raise RuntimeError(f"output with shape {list(written)} doesn't match the broadcast shape {shape}")


_UNTAGGED = frozenset(("aten::floor_divide_", "aten::bernoulli_"))
"""Elementwise operators without the tag in either form."""


@functools.cache
def _writes_elementwise(function: torch._ops.OpOverload) -> bool:
    schema = function._schema
    first = schema.arguments[:1]
    if not first or first[0].alias_info is None or not first[0].alias_info.is_write:
        return False
    # Not each in-place form has the tag that the form without mutation has.
    pure = getattr(getattr(torch.ops, function.namespace), schema.name.partition("::")[2].rstrip("_"), None)
    forms = (function, getattr(pure, function._overloadname, None))
    is_tagged = any(form is not None and torch.Tag.pointwise in form.tags for form in forms)
    return is_tagged or schema.name in _UNTAGGED


def _broadcasts(shape: Sequence[Any], written: Sequence[Any]) -> bool:
    if len(shape) > len(written):
        return False
    # From the last dimension. A symbolic size is compared by the operator itself, with a guard.
    sizes = zip(reversed(shape), reversed(written), strict=False)
    return all(
        not isinstance(size, int) or not isinstance(target, int) or size in (1, target) for size, target in sizes
    )
