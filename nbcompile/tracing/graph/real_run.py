"""Operators that fail on fake tensors and run on real ones: the graph breaks there, and Python runs them.

    x[torch.tensor([1, 0], dtype=torch.uint8)]      fake tensors reject an index of uint8
    x.view(7)                                       real tensors reject it, too: an error of the program

In torch: nothing; there each such error is a TorchRuntimeError (get_fake_value in torch/_dynamo/utils.py).
Read next: nbcompile/tracing/graph/output_graph.py
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from nbcompile import torch_internals

LARGE = 2**20
"""Elements of a tensor, or the product of the numbers among the arguments: with more, nothing is tried."""


def runs_on_data(
    target: str | Callable[..., object], arguments: Sequence[object], keywords: Mapping[str, object]
) -> bool:
    """Return whether an operator of torch's that fails on fake tensors runs on real ones of their sizes, of zeros.

    Fake tensors reject an index of uint8, a shift of bools and a softmax of bools. What fails here, too, is an error of
    the program. False where it is not known: code of the user's, sizes that are data or large, other devices. Symbolic
    sizes are those of the call that is traced: they decide only whether the graph breaks, so no guard is needed.
    """
    values = tree_leaves((tuple(arguments), dict(keywords)))
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    if not is_of_torch(target) or not all(map(_has_small_data, tensors)) or torch_internals.in_transform():
        return False
    if not _are_known_and_small([_hint(value) for value in values if not isinstance(value, torch.Tensor)]):
        return False
    with (
        torch_internals.real_dispatch(),
        torch.random.fork_rng(devices=()),
        warnings.catch_warnings(action="ignore"),
    ):
        try:
            # One tensor that is given twice is one here, too: a.copy_(a) does nothing, whatever memory a has.
            real = {id(value): _with_data(value) for value in values}
            given, named = tree_map(lambda value: real[id(value)], (tuple(arguments), dict(keywords)))
            if isinstance(target, str):
                getattr(given[0], target)(*given[1:], **named)
            else:
                target(*given, **named)
        except (RuntimeError, IndexError, TypeError, ValueError, AssertionError):
            return False
    return True


def is_of_torch(target: str | Callable[..., object]) -> bool:
    """Return whether an operator is torch's own, and no collective: it may run on its own, and twice."""
    if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch._ops.HigherOrderOperator)):
        return str(target).startswith("aten.")
    # A method of tensors; builtins of torch's have no module.
    module = "torch" if isinstance(target, str) else getattr(target, "__module__", None) or "torch"
    # A collective that only fake tensors reject would wait for the other processes.
    return module.partition(".")[0] in ("torch", "_operator") and not module.startswith("torch.distributed")


_UNKNOWN = object()


def _hint(value: Any) -> Any:
    """The value of a symbolic number in this call, ``_UNKNOWN`` if it is unbacked; any other value unchanged."""
    if not isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return value
    return value.node.hint if value.node.has_hint() else _UNKNOWN


def _are_known_and_small(numbers: Sequence[object]) -> bool:
    if any(number is _UNKNOWN for number in numbers):
        return False
    return math.prod(max(number, 1) for number in numbers if type(number) is int) <= LARGE


def _has_small_data(tensor: torch.Tensor) -> bool:
    if not torch_internals.is_plain(tensor) or tensor.layout is not torch.strided or tensor.device.type != "cpu":
        return False
    if tensor.is_conj() or tensor.is_neg():  # operators reject these bits, and zeros have none
        return False
    numbers = [_hint(number) for number in (*tensor.shape, *tensor.stride())]
    return all(number is not _UNKNOWN for number in numbers) and math.prod(numbers[: tensor.dim()]) <= LARGE


def _with_data(value: object) -> object:
    if not isinstance(value, torch.Tensor):
        return None if isinstance(value, torch.Generator) else _hint(value)  # the user's generator must not change
    sizes, strides = list(map(_hint, value.shape)), list(map(_hint, value.stride()))
    # ``view`` depends on the strides; operators in place reject leaves that require gradients.
    extent = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True) if size)
    zeros = torch.zeros(extent, dtype=value.dtype).as_strided(sizes, strides)
    zeros.requires_grad_(value.requires_grad)
    return zeros if value.is_leaf else zeros * 1
