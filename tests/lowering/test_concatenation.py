"""Concatenation and padding: one body that chooses a part by its index, with eager's values and strides."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.lowering.families import check_family, every_way, n, v, x, y

FAMILIES = {
    "joined": (
        lambda x, y, v, n: [
            torch.cat([x, y]),
            torch.cat([x, y], 1),
            torch.stack([x, y], 1),
            torch.cat([x, n.float() + 1]),
            torch.cat([x + 1, y.t().reshape(8, 16) * 2], 1) + 1,
            F.pad(x, (1, 2)),
            F.pad(x, (1, -2, 3, 0), value=2.0),
            F.pad(x, (-1, -1)),
            torch.cat([x[:, 8:], -x[:, :8]], 1) * y,
        ],
        (x, y, v, n),
    ),
    "repeated": (
        lambda x: [x.repeat(2, 3), x.repeat(2, 3) * 2, torch.tile(x, (2,)), torch.stack([x, x + 1])],
        (x,),
    ),
}


@every_way
@pytest.mark.parametrize("name", FAMILIES)
def test_family(name, how):
    """Program and schedule give eager's values, dtypes and strides, without ATen."""
    check_family(*FAMILIES[name], how)
