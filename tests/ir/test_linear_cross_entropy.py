"""The operator of a linear layer and its cross entropy, which computes a part of the rows at a time."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from nbcompile.ir import linear_cross_entropy
from nbcompile.ir.linear_cross_entropy import OPERATOR, loss_of_rows


def test_parts_of_the_rows_give_the_whole(monkeypatch):
    """Loss and gradients of three parts equal those of all rows at once."""
    monkeypatch.setattr(linear_cross_entropy, "CHUNK_BYTES", 4 * 30 * 4)
    torch.manual_seed(0)
    x, w, b = (torch.randn(size, requires_grad=True) for size in ((10, 6), (30, 6), (30,)))
    target = torch.randint(0, 30, (10,))
    target[2] = -100
    loss = loss_of_rows(*OPERATOR(x, w, b, target, -100), target, 30, 1, -100, 0.1, x.dtype)
    expected = F.cross_entropy(F.linear(x, w, b), target, label_smoothing=0.1)
    torch.testing.assert_close(loss, expected)
    for mine, theirs in zip(*(torch.autograd.grad(value, (x, w, b)) for value in (loss, expected)), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_all_targets_ignored_is_nan():
    """The mean over no targets is NaN, as in eager mode."""
    x, w, target = torch.randn(3, 4), torch.randn(5, 4), torch.full((3,), -100)
    loss = loss_of_rows(*OPERATOR(x, w, None, target, -100), target, 5, 1, -100, 0.0, x.dtype)
    assert loss.isnan()
    assert F.cross_entropy(x @ w.mT, target).isnan()
