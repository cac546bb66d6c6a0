"""Operators that lose a check of their values when they are traced.

    F.one_hot(ids, 3)                eager mode: RuntimeError for an id of 7. As ATen traces it: a comparison
    torch.istft(s, 16, window=w)     eager mode: RuntimeError for windows of zeros. By the definition in Python: NaN

Such a call is replaced in the captured graph by a function that asserts, as torch's decomposition does, or that reads
a value by a checked index.

In torch: one_hot of torch/_decomp/decompositions.py, which asserts; istft of torch/_refs/__init__.py, which does not:
there the result is NaN. Read next: nbcompile/aot/compile.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.fx

from nbcompile import torch_internals


def keep(module: torch.fx.GraphModule) -> None:
    """Replace the calls of a captured graph that would lose their check."""
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target in CHECKED:
            node.target = CHECKED[node.target]
        elif node.op == "call_method" and node.target in CHECKED_METHODS:
            node.op, node.target = "call_function", CHECKED_METHODS[node.target]


def one_hot(tensor: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
    """Compare the ids with each class, after eager's checks of them, which run whether the result is used or not."""
    # Without num_classes the number of classes depends on data. Under vmap eager mode checks nothing.
    if num_classes < 0 or tensor.dtype != torch.int64 or torch_internals.is_batched(tensor):
        return torch.nn.functional.one_hot(tensor, num_classes)
    torch._assert_async((tensor >= 0).all(), "Class values must be non-negative.")
    torch._assert_async((tensor < num_classes).all(), "Class values must be smaller than num_classes.")
    classes = torch.arange(num_classes, device=tensor.device)
    return (tensor.unsqueeze(-1) == classes).to(torch.int64)


def binary_cross_entropy(
    input: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None = None, *arguments: Any, **keywords: Any
) -> torch.Tensor:
    """Compute the loss, after a check that each probability and each target is from 0 to 1."""
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


def istft(
    input: torch.Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: torch.Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> torch.Tensor:
    """Compute the signal of a spectrum, after eager's check that the windows cover each element of the signal."""
    # The definition in Python, since C++ reads the check's result to raise: it would need data.
    with torch_internals.rules_in_python(True):
        signal = torch.istft(
            input, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex
        )
    hop = n_fft // 4 if hop_length is None else hop_length
    size = n_fft if win_length is None else win_length
    weights = torch.ones(size, device=input.device) if window is None else window
    left = (n_fft - size) // 2
    weights = torch.nn.functional.pad(weights, (left, n_fft - size - left))
    #     frame 0    w0 w1 w2 w3
    #     frame 1          w0 w1 w2 w3      hop 2
    #     sums of the squares, of which the signal is divided by those from `start` to `end`
    frames = input.size(-1)
    covered = n_fft + hop * (frames - 1)
    start = n_fft // 2 if center else 0
    end = covered - start if length is None else start + length
    squares = weights.pow(2).expand(1, frames, n_fft)
    sums = torch.ops.aten.unfold_backward(squares, [1, covered], 1, n_fft, hop)[:, start:end]
    # Under vmap the batch of windows as a whole: an assertion has no batching rule.
    lowest = torch_internals.without_levels(sums).abs().min()
    # Not `lowest >= 1e-11`, since NaN passes in eager mode.
    torch._assert_async((lowest < 1e-11).logical_not(), "window overlap add min: 1")
    return signal


CHECKED: dict[Any, Callable[..., Any]] = {
    torch.nn.functional.one_hot: one_hot,
    torch.nn.functional.binary_cross_entropy: binary_cross_entropy,
    torch.ops.aten.one_hot: one_hot,
    torch.ops.aten.one_hot.default: one_hot,
    torch.istft: istft,
    torch.ops.aten.istft: istft,
    torch.ops.aten.istft.default: istft,
}

CHECKED_METHODS: dict[str, Callable[..., Any]] = {"istft": istft}
