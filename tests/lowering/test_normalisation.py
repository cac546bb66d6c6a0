"""Softmax and normalisation: eager's values."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.lowering.families import check_family, every_way, v, x

FAMILIES = {
    "softmax and layer norm": (
        lambda x, v: [
            torch.softmax(x, 0),
            torch.softmax(x, 1),
            torch.log_softmax(x, 1),
            F.layer_norm(x, (16,), v, v),
            F.layer_norm(x, (8, 16)),
            x / x.norm(dim=1, keepdim=True),
            x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * v,
        ],
        (x, v),
    ),
}


@every_way
@pytest.mark.parametrize("name", FAMILIES)
def test_family(name, how):
    """Program and schedule give eager's values, dtypes and strides, without ATen."""
    check_family(*FAMILIES[name], how)
