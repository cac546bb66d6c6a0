"""Creation operators: eager's values, dtypes and strides."""

from __future__ import annotations

import pytest
import torch

from tests.lowering.families import check_family, every_way, x

FAMILIES = {
    "filled and counted": (
        lambda x: [
            torch.ones(3),
            torch.zeros(2, 2, dtype=torch.int64),
            torch.full((2,), 3.5),
            torch.arange(5),
            torch.arange(2, 10, 3),
            torch.arange(0, 1, 0.1),
            torch.eye(4),
            torch.ones_like(x),
            torch.zeros_like(x) + x,
            torch.full_like(x, 2),
            torch.tril(x),
            torch.triu(x, 1),
            torch.tril(torch.ones(4, 4, dtype=torch.bool)),
            torch.scalar_tensor(3.0),
            x.new_zeros(3),
            torch.linspace(0, 1, 5),
            torch.arange(16) + x,
            torch.eye(3, 5),
        ],
        (x,),
    ),
}


@every_way
@pytest.mark.parametrize("name", FAMILIES)
def test_family(name, how):
    """Program and schedule give eager's values, dtypes and strides, without ATen."""
    check_family(*FAMILIES[name], how)
