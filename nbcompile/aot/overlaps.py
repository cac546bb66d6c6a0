"""Inputs that share memory in a way that AOTAutograd cannot see: a tensor of a user's class, and one inside of it.

    def f(x):             # x = TwoTensor(a, b)
        x.a.add_(1)       # the graph gets x.a and x; made functional, x * 2 would read the old x.a
        return x * 2

AOTAutograd takes each input apart and follows writes through views of one tensor; that two inputs have a part in
common it does not look for, and the result is wrong. Such a graph runs operator by operator, as it was captured.

In torch: torch/_functorch/_aot_autograd/runtime_wrappers.py (merge_view_inputs). Read next:
nbcompile/aot/compile.py
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from nbcompile import torch_internals

REASON = "an input is inside of another one, or shares memory with what is; AOTAutograd cannot see that"


def share_parts(inputs: Sequence[Any]) -> bool:
    """Whether two inputs have memory in common, one of them being a wrapper around tensors."""
    tensors = [each for each in inputs if isinstance(each, torch.Tensor)]
    wrappers = [each for each in tensors if torch_internals.is_wrapper(each)]
    return any(
        one is not other and not _memory(one).isdisjoint(_memory(other)) for one in wrappers for other in tensors
    )


def _memory(tensor: torch.Tensor) -> set[int]:
    return {each.untyped_storage()._cdata for each in _leaves(tensor)}


def _leaves(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    if not torch_internals.is_wrapper(tensor):
        yield tensor
        return
    names, _ = tensor.__tensor_flatten__()  # type: ignore[attr-defined]
    for name in names:
        yield from _leaves(getattr(tensor, name))
