"""Replacement of a part of a tensor: eager's values."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from tests.lowering.families import check_family, every_way, x, y

FAMILIES = {
    "slices and diagonals": (
        lambda x, y: [
            torch.slice_scatter(x, y[:, :4], 1, 2, 6),
            torch.slice_scatter(x, y[:, :3], 1, 2, 8, 2),
            torch.diagonal_scatter(x, y[0, :8], 1),
            torch.diagonal_scatter(x, y[0, :6], -2),
            torch.take(x, torch.tensor([[3, -1], [127, 0]])),
            torch.select_scatter(x, y[0], 0, 3),
            torch.select_scatter(x, y[0], 0, -1),
            torch.as_strided_scatter(x, y[0, :5], (5,), (7,), 3),
            torch.as_strided_scatter(x, y[:3, :4], (3, 4), (2, 11), 1),
            torch.as_strided_scatter(x * 2, y[:4, :4, None], (4, 4, 1), (16, 1, 5)),
            torch.as_strided_scatter(x, y, x.shape, x.stride()) + torch.as_strided_scatter(x, y[0, 0], (), ()),
            torch.as_strided_scatter(x, y[:0], (0, y.shape[1]), (1, 1)),
            torch.as_strided_scatter(x[1:], y[0, :3], (3,), (2,), x.shape[1] + 1),
        ],
        (x, y),
    ),
}


@every_way
@pytest.mark.parametrize("name", FAMILIES)
def test_family(name, how):
    """Program and schedule give eager's values, dtypes and strides; with dynamic sizes some of it runs through ATen."""
    check_family(*FAMILIES[name], how, needs_aten=("dynamic",))


def test_offsets_before_the_view_are_not_of_it_on_a_gpu():
    """On a GPU, the offset before the view is divided with floor, so the element is in the row before."""
    pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
    pytest.importorskip("numpy", reason="the simulator computes with NumPy")
    x, y = torch.zeros(4, 5), torch.tensor([[1.0, 2.0], [3.0, 4.0]])

    def function(x, y):
        return torch.as_strided_scatter(x, y, (2, 2), (5, 2), 3)

    found = nbcompile.explain(function, options={"target": "sm_90"})(x, y)
    torch.testing.assert_close(found.result, function(x, y), rtol=0, atol=0)
