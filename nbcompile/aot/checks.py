"""Operators that lose a check of their values when they are traced.

    F.one_hot(ids, 3)     eager mode: RuntimeError for an id of 7. As ATen traces it: ids.unsqueeze(-1) == arange(3)

Such a call is replaced in the captured graph by a function that asserts, as torch's decomposition does, or asks for the
same values in a way that is checked.

In torch: one_hot of torch/_decomp/decompositions.py, which asserts. Read next: nbcompile/aot/compile.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.fx


def keep(module: torch.fx.GraphModule) -> None:
    """Replace, in a captured graph, what would lose its check."""
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target in CHECKED:
            node.target = CHECKED[node.target]


def one_hot(tensor: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
    """The ids compared with each class, after eager's checks of them, which run whether the result is used or not."""
    # Without num_classes the number of classes depends on data.
    if num_classes < 0 or tensor.dtype != torch.int64:
        return torch.nn.functional.one_hot(tensor, num_classes)
    torch._assert_async((tensor >= 0).all(), "Class values must be non-negative.")
    torch._assert_async((tensor < num_classes).all(), "Class values must be smaller than num_classes.")
    classes = torch.arange(num_classes, device=tensor.device)
    return (tensor.unsqueeze(-1) == classes).to(torch.int64)


def binary_cross_entropy(
    input: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None = None, *arguments: Any, **keywords: Any
) -> torch.Tensor:
    """The loss of probabilities and targets that were checked: each is from 0 to 1."""
    loss = torch.nn.functional.binary_cross_entropy
    if not isinstance(target, torch.Tensor):
        return loss(input, target, weight, *arguments, **keywords)
    return loss(_from_0_to_1(input), _from_0_to_1(target), weight, *arguments, **keywords)


def _from_0_to_1(values: torch.Tensor) -> torch.Tensor:
    """The same values; if one is not from 0 to 1, a table of one element is read at index 1, which is out of bounds."""
    #     all inside     index 0 of a table of one element       True
    #     one outside    index 1                                 IndexError, by the bounds check
    # NaN is outside, as for eager mode.
    outside = ((values >= 0) & (values <= 1)).all().logical_not().to(torch.int64)
    inside = torch.ones(1, dtype=torch.bool, device=values.device).gather(0, outside.reshape(1))
    # The check has to be used, or it would be removed as dead code.
    return torch.where(inside, values, 0)


CHECKED: dict[Any, Callable[..., Any]] = {
    torch.nn.functional.one_hot: one_hot,
    torch.nn.functional.binary_cross_entropy: binary_cross_entropy,
    torch.ops.aten.one_hot: one_hot,
    torch.ops.aten.one_hot.default: one_hot,
}
