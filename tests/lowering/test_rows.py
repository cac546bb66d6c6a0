"""Maxima and softmax over rows with special values, compared with eager mode, bitwise where the result is exact."""

from __future__ import annotations

import math

import pytest
import torch

import nbcompile

pytestmark = pytest.mark.usefixtures("nothing_compiled")

SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, 3e38, -3e38)


def rows(columns: int, dtype: torch.dtype) -> torch.Tensor:
    """A row for each special value at several indices, rows that contain only the value, and plain rows."""
    torch.manual_seed(0)
    found = [torch.randn(columns)]
    for value in SPECIAL:
        for place in {0, columns // 2, columns - 1}:
            row = torch.randn(columns)
            row[place] = value
            found += [row, -row]
        found.append(torch.full((columns,), value))
    return torch.stack(found).to(dtype)


@pytest.mark.parametrize("columns", [1, 7, 32, 45, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_largest_and_smallest(columns, dtype):
    """A NaN wins at any index: in a row, in a column, between two tensors, and between two numbers."""
    x = rows(columns, dtype)
    y = x.flip(0).roll(1, 1)

    def function(x, y):
        return x.amax(-1), x.amin(-1), x.amax(0), x.amin(0), torch.maximum(x, y), torch.minimum(x, y), x.clamp(-1, 2)

    for one, two in zip(nbcompile.compile(function)(x, y), function(x, y), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("columns", [1, 7, 32, 45, 1000])
@pytest.mark.parametrize("dim", [-1, 0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_softmax(columns, dim, dtype):
    """A row with NaN or infinity is NaN, a row of equal numbers is uniform, and values far below the maximum give 0."""
    x = rows(columns, dtype)
    x = x if dim == -1 else x.t().contiguous()
    for dynamic in (False, True):
        ours = nbcompile.compile(lambda x: torch.softmax(x, dim), dynamic=dynamic)(x)
        expected = torch.softmax(x, dim)
        torch.testing.assert_close(ours, expected, equal_nan=True)
        assert torch.equal(ours.isnan(), expected.isnan())
        assert torch.equal(ours == 0, expected == 0)
