"""Indexing with tensors: eager's values."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.lowering.families import big, check_family, every_way, i, x

FAMILIES = {
    "rows and elements": (
        lambda x, i, big: [
            F.embedding(i, x),
            x[i],
            x[:, i],
            x[i, i],
            x[i][:, i],
            big[:, i % 3, :, i % 5],
            big[i % 2, :, i % 4],
            big[:, i % 3, i % 4],
            x[i - 8],
            torch.gather(x, 1, (i[:, None] * 1).expand(5, 3)),
            torch.index_select(x, 0, i),
            torch.index_select(x, 1, i),
            x[i[:, None], i],
            (x.exp() + x)[i],
            x[i].sum(0),
            F.embedding(i, x).t() + 1,
        ],
        (x, i, big),
    ),
}


@every_way
@pytest.mark.parametrize("name", FAMILIES)
def test_family(name, how):
    """Program and schedule give eager's values, dtypes and strides, without ATen."""
    check_family(*FAMILIES[name], how)
