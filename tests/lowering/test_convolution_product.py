"""Convolutions as matrix products in the IR, for a GPU."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from nbcompile.ir.buffer import Extern, Reduction
from tests.lowering.test_products import check, lowered


def half(*size: int) -> torch.Tensor:
    torch.manual_seed(sum(size))
    return (torch.randn(size) / 4).half()


X, W, B = half(2, 8, 7, 9), half(12, 8, 3, 3), half(12)
LAST = torch.channels_last


@pytest.mark.parametrize("function", [
    lambda x, w, b: F.conv2d(x, w),
    lambda x, w, b: F.conv2d(x, w, b).relu(),
    lambda x, w, b: F.conv2d(x, w, b, padding=1) * 2,
    lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=(0, 2)).sigmoid(),
    lambda x, w, b: F.conv2d(x, w, b, dilation=(2, 3), padding=2) + b[:, None, None],
    lambda x, w, b: F.conv2d(x[:, :, ::2], w[:, :, :2, :1], b),
    lambda x, w, b: F.conv2d(x * 2, w[:, :, :1, :1], b).tanh(),
    lambda x, w, b: F.conv2d(x[:1], w[:, :, :1, :1]),
    lambda x, w, b: F.conv2d(x.contiguous(memory_format=LAST), w.contiguous(memory_format=LAST), b, padding=1).relu(),
    lambda x, w, b: F.conv1d(x[:, :, 0], w[:, :, 0], b, stride=2),
    lambda x, w, b: F.conv3d(x[:, :, None], w[:, :, None], b, padding=(0, 1, 0)),
], ids=range(11))  # fmt: skip
def test_a_convolution_with_what_follows_is_a_product(function):
    """Convolutions with stride, padding and dilation, in one to three dimensions, in both formats, are one kernel."""
    program, _ = check(function, X, W, B)
    assert sum(isinstance(each, Reduction) and each.kind == "dot" for each in program.buffers) == 1


@pytest.mark.parametrize("function", [
    lambda x, w, b: F.conv2d(x.float(), w.float(), b.float()),
    lambda x, w, b: F.conv2d(x, w[:, :4], b, groups=2),
    lambda x, w, b: F.conv_transpose2d(x, w.transpose(0, 1), b),
    lambda x, w, b: F.conv2d(x, w[:1], b[:1]),
], ids=["float32", "groups", "transposed", "one channel"])  # fmt: skip
def test_others_are_the_librarys(function):
    """A convolution that no template supports runs through ATen."""
    assert any(isinstance(each, Extern) for each in lowered(function, X, W, B).buffers)
