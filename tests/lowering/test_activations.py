"""Activations compute eager's values, as programs and as kernels."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.lowering.families import check_family, every_way, x
from tests.support.lowered import check

FAMILIES = {
    "activations": (
        lambda x: [
            F.gelu(x),
            F.gelu(x, approximate="tanh"),
            F.silu(x),
            F.relu6(x),
            F.leaky_relu(x),
            F.hardtanh(x),
            F.hardsigmoid(x),
            F.hardswish(x),
            F.elu(x),
            F.softplus(x),
            F.mish(x),
            F.threshold(x, 0.1, 3.0),
            F.logsigmoid(x),
        ],
        (x,),
    ),
}


@every_way
@pytest.mark.parametrize("name", FAMILIES)
def test_family(name, how):
    """Program and schedule give eager's values, dtypes and strides, without ATen."""
    check_family(*FAMILIES[name], how)


def test_the_share_of_a_normal_distribution():
    """ndtr, and gelu and its derivative, which use it, equal eager's in each dtype."""
    x, grad = torch.randn(7, 33), torch.randn(7, 33)
    check(lambda x: F.gelu(x) + torch.special.ndtr(x), x, must_be_triton=True)
    check(lambda grad, x: torch.ops.aten.gelu_backward(grad, x), grad, x, must_be_triton=True)
    check(F.gelu, x.double())
    check(F.gelu, x.bfloat16())
