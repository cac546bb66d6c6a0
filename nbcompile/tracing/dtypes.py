"""Dtypes that fake tensors let pass and the real operator refuses, so that the mistake is met where it is traced.

    torch.ones(3, 3) @ torch.ones(3, 3, dtype=torch.int64)       a product of two dtypes
    cross_entropy(logits, target.int())                          class indices that are neither int64 nor uint8

In torch: checks in aten/src/ATen/native/LinearAlgebra.cpp and LossNLL.cpp; the meta functions of
torch/_meta_registrations.py have none of them. Read next: nbcompile/tracing/output_graph.py
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch

_PRODUCTS = frozenset({
    operator.matmul, torch.matmul, torch.mm, torch.mv, torch.bmm, torch.addmm, torch.baddbmm, torch.addmv,
    torch.nn.functional.linear,
    "matmul", "mm", "mv", "bmm", "addmm", "baddbmm", "addmv", "__matmul__", "__rmatmul__",
})  # fmt: skip
_CLASSES = frozenset({torch.nn.functional.cross_entropy, torch.nn.functional.nll_loss})


def check(target: object, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Refuse what the real operator would.

    Raises:
        RuntimeError: as the operator does, in its words.
    """
    if target in _PRODUCTS:
        _check_product([each for each in (*arguments, *keywords.values()) if isinstance(each, torch.Tensor)])
    elif target in _CLASSES:
        wanted = keywords.get("target", arguments[1] if len(arguments) > 1 else None)
        if isinstance(wanted, torch.Tensor) and not (wanted.dtype.is_floating_point or wanted.dtype in _INDICES):
            raise RuntimeError(f"expected target dtype to be Long or Byte, but got {wanted.dtype}")


_INDICES = (torch.int64, torch.uint8)


def _check_product(tensors: Sequence[torch.Tensor]) -> None:
    dtypes = dict.fromkeys(each.dtype for each in tensors)
    devices = {each.device.type for each in tensors}
    if len(dtypes) < 2 or "meta" in devices or any(torch.is_autocast_enabled(each) for each in devices):
        return
    first, second, *_ = dtypes
    raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {first} != {second}")
