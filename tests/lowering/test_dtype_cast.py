"""Conversions between types, and computing in bfloat16: eager's values."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.lowering.families import b, check_family, every_way, h, n, x

FAMILIES = {
    "conversions": (
        lambda x, n, b: [
            x.double(),
            x.to(torch.int32),
            n.float(),
            b.float(),
            x.bool(),
            x.bfloat16(),
            x.half().float(),
            n.to(torch.uint8),
        ],
        (x, n, b),
    ),
    "bfloat16": (
        lambda h: [
            h + 1,
            h * h,
            F.gelu(h),
            h.sum(1),
            h.mean(0),
            torch.softmax(h, -1),
            h.float(),
            h > 0,
            h.max(1),
            F.layer_norm(h, (16,)),
        ],
        (h,),
    ),
}


@every_way
@pytest.mark.parametrize("name", FAMILIES)
def test_family(name, how):
    """Program and schedule give eager's values, dtypes and strides, without ATen."""
    check_family(*FAMILIES[name], how)
