"""Views, and values computed from them: eager's values and strides."""

from __future__ import annotations

import pytest
import torch

from tests.lowering.families import big, check_family, every_way, x
from tests.support.lowered import check

FAMILIES = {
    "views that are returned": (
        lambda x, big: [
            x.t(),
            x[2],
            x[:, 3],
            x[1:5, ::2],
            x.view(4, 32),
            x.reshape(-1),
            x.unsqueeze(1),
            x[:, None].expand(8, 3, 16),
            big.permute(0, 2, 3, 1),
            big.transpose(1, 2).reshape(2, 4, 15),
            big.flatten(1),
            x.diagonal(),
            x.flip(0),
            x.roll(3, 1),
            x.roll(2),
            x.repeat(2, 3),
            x.unfold(1, 4, 2),
            big.transpose(0, 3).reshape(5, -1),
            x.squeeze(),
            x.unbind(0)[3],
            torch.split(x, 3, 0)[1],
            x.chunk(2, 1)[1],
            torch.tile(x, (2,)),
            x.as_strided((3, 4), (2, 1), 1),
        ],
        (x, big),
    ),
    "computed of views": (
        lambda x, big: [
            x.t() + 1,
            x[2] * 2,
            x[:, 3] + 1,
            x[1:5, ::2] + 1,
            x.view(4, 32) + 1,
            (x + 1).view(4, 32),
            (x + 1).t().reshape(-1),
            x[:, None].expand(8, 3, 16) + 1,
            big.permute(0, 2, 3, 1) * 2,
            (big + 1).transpose(1, 2).reshape(2, 4, 15) * 2,
            x.diagonal() + 1,
            x.flip(0) + 1,
            x.roll(3, 1) + x,
            x.repeat(2, 3) * 2,
            x.unfold(1, 4, 2) + 1,
            (big * 2).transpose(0, 3).reshape(5, -1).sum(1),
            (x + 1).expand(3, 8, 16),
            (x + 1)[:, ::2],
            (x + 1).t(),
            x.view(2, 4, 16).sum(1),
            x.view(8, 4, 4).transpose(1, 2).reshape(8, 16) + x,
            (x + 1)[:, None].expand(8, 3, 16),
        ],
        (x, big),
    ),
    "the same memory and copies": (
        lambda x: [x, x.clone(), x.t(), (x + 1).clone(), x.t().clone(), x.contiguous()],
        (x,),
    ),
}


@every_way
@pytest.mark.parametrize("name", FAMILIES)
def test_family(name, how):
    """Program and schedule give eager's values, dtypes and strides, without ATen."""
    check_family(*FAMILIES[name], how)


NOTHING_IN_ANOTHER_SHAPE = {
    "joined": (lambda x: torch.cat([x.flatten(), x.flatten()]), (2, 0)),
    "in the middle": (lambda x: (x + 1).reshape(3, 0, 4) * 2, (2, 0, 6)),
    "to one dimension": (lambda x: (x + 1).reshape(0), (0, 3, 2)),
    "a sum of none": (lambda x: (x.mT + 1).reshape(0, 6).sum(0), (0, 3, 2)),
    "no sum": (lambda x: (x.mT + 1).reshape(0, 6).sum(1), (2, 3, 0)),
    "two without extent": (lambda x: (x + 1).reshape(0, 5, 0), (2, 0, 0, 3)),
}


@pytest.mark.parametrize("name", NOTHING_IN_ANOTHER_SHAPE)
def test_a_tensor_without_elements_in_another_shape(name):
    """A view of a tensor without elements compiles: no size of zero is a divisor."""
    function, shape = NOTHING_IN_ANOTHER_SHAPE[name]
    check(function, torch.ones(shape), exact_strides=False)
