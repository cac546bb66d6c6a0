"""Images that tests of pooling and of resizing share, and a check of their gradients."""

from __future__ import annotations

from collections.abc import Callable

import torch

import nbcompile

torch.manual_seed(0)
image, volume, row = torch.randn(2, 3, 8, 11), torch.randn(1, 2, 4, 6, 5), torch.randn(2, 3, 12)


def check_gradients(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Assert that a compiled forward and backward pass equal eager's."""
    x, y = (image.clone().requires_grad_() for _ in range(2))
    expected, found = function(x), nbcompile.compile(function)(y)
    torch.testing.assert_close(found, expected)
    weight = torch.randn_like(expected)
    (expected * weight).sum().backward()
    (found * weight).sum().backward()
    torch.testing.assert_close(y.grad, x.grad, rtol=1e-4, atol=1e-5)
