"""Operators that lose a check of their values when they are traced.

    F.one_hot(ids, 3)     eager mode: RuntimeError for an id of 7. As ATen traces it: ids.unsqueeze(-1) == arange(3)

Such a call is replaced in the captured graph by a function that asks for the same values in a way that is checked.

In torch: one_hot of torch/_decomp/decompositions.py, which asserts. Read next: nbcompile/aot/compile.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.fx

from nbcompile.capture.node_meta import CHECKS


def keep(module: torch.fx.GraphModule) -> None:
    """Replace, in a captured graph, what would lose its check."""
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target in CHECKED:
            node.target = CHECKED[node.target]
            node.meta[CHECKS] = True


def one_hot(tensor: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
    """The classes at the ids, compared with each class: an id that is no class is an index that is out of bounds."""
    if num_classes < 0 or tensor.dtype != torch.int64:
        return torch.nn.functional.one_hot(tensor, num_classes)
    classes = torch.arange(num_classes, device=tensor.device)
    chosen = classes.gather(0, tensor.reshape(-1)).reshape(tensor.shape)
    return (chosen.unsqueeze(-1) == classes).to(torch.int64)


def binary_cross_entropy(
    input: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None = None, *arguments: Any, **keywords: Any
) -> torch.Tensor:
    """The loss, after a check that all values are from 0 to 1: else an index into one element is 1, out of bounds."""
    if isinstance(target, torch.Tensor):
        inside = (input >= 0) & (input <= 1)
        targets_inside = (target >= 0) & (target <= 1)
        wrong = torch.stack([inside.all().logical_not(), targets_inside.all().logical_not()]).to(torch.int64)
        torch.zeros(1, device=input.device).index_select(0, wrong)
    return torch.nn.functional.binary_cross_entropy(input, target, weight, *arguments, **keywords)


CHECKED: dict[Any, Callable[..., Any]] = {
    torch.nn.functional.one_hot: one_hot,
    torch.nn.functional.binary_cross_entropy: binary_cross_entropy,
    torch.ops.aten.one_hot: one_hot,
    torch.ops.aten.one_hot.default: one_hot,
}
