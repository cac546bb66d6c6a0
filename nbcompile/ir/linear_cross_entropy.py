"""Linear layer and cross entropy as one custom operator, which never holds all logits: rows, and the loss of these.

    sums, picked, totals = nbcompile::linear_cross_entropy(x, weight, bias, target, ignored)      three numbers for each
    row
    loss = loss_of_rows(sums, picked, totals, target, ...)                                        the loss from these

``sums`` is the logarithm of the sum of exponentials of a row's logits, ``picked`` the target's logit, ``totals`` the
sum of all logits, which label smoothing needs. A GPU has a kernel (gpu/linear_cross_entropy.py); here, and in the
backward, the rows are computed in chunks, so that only the logits of one chunk are in memory.

In torch: torch/nn/modules/linear_cross_entropy.py. Read next: nbcompile/aot/linear_cross_entropy.py
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.nn import functional

CHUNK_BYTES = 1 << 26
"""Bytes of logits, in float32, that are in memory at once."""
_SCHEMA = (
    "linear_cross_entropy(Tensor x, Tensor weight, Tensor? bias, Tensor target, int ignored) -> "
    "(Tensor, Tensor, Tensor)"
)
_BACKWARD = (
    "linear_cross_entropy_backward(Tensor x, Tensor weight, Tensor? bias, Tensor target, int ignored, Tensor sums, "
    "Tensor grad_sums, Tensor grad_picked, Tensor grad_totals) -> (Tensor, Tensor, Tensor)"
)


def _chunks(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> Iterator[tuple[slice, torch.Tensor]]:
    """Some rows, and their logits, rounded as those of the linear layer."""
    rows = max(1, CHUNK_BYTES // (4 * weight.shape[0]))
    for first in range(0, x.shape[0], rows):
        part = slice(first, first + rows)
        yield part, functional.linear(x[part], weight, bias).float()


def linear_cross_entropy(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, target: torch.Tensor, ignored: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Three numbers of each row: the logarithm of the sum of exponentials, the target's logit, the sum of logits."""
    found = x.new_empty((3, x.shape[0]), dtype=torch.float32)
    safe = torch.where(target == ignored, 0, target)
    for part, logits in _chunks(x, weight, bias):
        found[0, part] = torch.logsumexp(logits, 1)
        found[1, part] = logits.gather(1, safe[part, None])[:, 0] * (target[part] != ignored)
        found[2, part] = logits.sum(1)
    return found[0].clone(), found[1].clone(), found[2].clone()


def linear_cross_entropy_backward(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, target: torch.Tensor, ignored: int,
    sums: torch.Tensor, grad_sums: torch.Tensor, grad_picked: torch.Tensor, grad_totals: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Gradients of x, weight and bias: of some rows' logits, which are computed again, at a time."""
    of_x = torch.empty_like(x)
    # Parts are added in float32: a sum of rounded sums would be off by more with every part.
    of_weight = torch.zeros_like(weight, dtype=torch.float32)
    of_bias = x.new_zeros((weight.shape[0],), dtype=torch.float32)
    safe = torch.where(target == ignored, 0, target)
    picked = torch.where(target == ignored, 0, grad_picked)
    for part, logits in _chunks(x, weight, bias):
        change = logits.sub_(sums[part, None]).exp_().mul_(grad_sums[part, None]).add_(grad_totals[part, None])
        change = change.scatter_add_(1, safe[part, None], picked[part, None]).to(x.dtype)
        of_x[part] = change @ weight
        of_weight += change.mT @ x[part]
        of_bias += change.sum(0, dtype=torch.float32)
    return of_x, of_weight.to(weight.dtype), of_bias.to(x.dtype)


def loss_of_rows(
    sums: torch.Tensor, picked: torch.Tensor, totals: torch.Tensor, target: torch.Tensor, classes: int, reduction: int,
    ignored: int, smoothing: float, dtype: torch.dtype,
) -> torch.Tensor:  # fmt: skip
    """The loss, as ``cross_entropy`` defines it; ``reduction`` is 0 for none, 1 for the mean, 2 for the sum."""
    counts = target != ignored
    # A target that is no class becomes an index out of bounds of a table of one element: its check raises, as eager
    # mode does.
    unknown = counts & ((target < 0) | (target >= classes))
    picked = picked + picked.new_zeros(1).gather(0, unknown.to(torch.int64))
    loss = (1 - smoothing) * (sums - picked)
    if smoothing:
        loss = loss + smoothing * (sums - totals / classes)
    loss = torch.where(counts, loss, 0.0)
    if reduction:
        total = loss.sum()
        loss = total / counts.sum() if reduction == 1 else total
    return loss.to(dtype)


def _fake(x: torch.Tensor, *_: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    one, other, third = (x.new_empty((x.shape[0],), dtype=torch.float32) for _ in range(3))
    return one, other, third


def _fake_backward(x: torch.Tensor, weight: torch.Tensor, *_: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.empty_like(x), torch.empty_like(weight), x.new_empty((weight.shape[0],))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    *tensors, ignored = inputs
    ctx.save_for_backward(*tensors, output[0])
    ctx.ignored = ignored


def _backward(context: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    x, weight, bias, target, sums = context.saved_tensors
    of_x, of_weight, of_bias = BACKWARD(x, weight, bias, target, context.ignored, sums, *grads)
    return of_x, of_weight, None if bias is None else of_bias, None, None


# The library is kept alive: its operators are removed when it is collected.
_LIBRARY = torch.library.Library("nbcompile", "FRAGMENT")
_LIBRARY.define(_SCHEMA)
_LIBRARY.define(_BACKWARD)
_LIBRARY.impl("linear_cross_entropy", linear_cross_entropy, "CompositeExplicitAutograd")
_LIBRARY.impl("linear_cross_entropy_backward", linear_cross_entropy_backward, "CompositeExplicitAutograd")
torch.library.register_fake("nbcompile::linear_cross_entropy", _fake, lib=_LIBRARY)
torch.library.register_fake("nbcompile::linear_cross_entropy_backward", _fake_backward, lib=_LIBRARY)
torch.library.register_autograd("nbcompile::linear_cross_entropy", _backward, setup_context=_keep, lib=_LIBRARY)
OPERATOR = torch.ops.nbcompile.linear_cross_entropy.default
BACKWARD = torch.ops.nbcompile.linear_cross_entropy_backward.default
