"""Gathers, and scans with an index: all lanes at once, with eager's results."""

from __future__ import annotations

import functools
import warnings

import pytest
import torch
import torch.nn.functional as F

import nbcompile
from nbcompile.errors import GeneratedCodeWarning

DTYPES = [torch.float32, torch.float64, torch.int64, torch.int32, torch.bfloat16, torch.uint8, torch.bool]
PROGRAMS = {
    "columns": lambda x, i, j: x[:, i],
    "rows of a transpose": lambda x, i, j: x.t()[i],
    "along rows": lambda x, i, j: x.gather(1, j),
    "along columns": lambda x, i, j: x.t().gather(0, j.t()),
    "rows and columns": lambda x, i, j: x[i.abs() % 37, i],
    "in a slice": lambda x, i, j: x[:, None, :].expand(37, 4, 53).gather(2, j[:, None].expand(37, 4, 19)),
}


def check(function, *inputs, **options):
    found = nbcompile.compile(function, fullgraph=True, **options)(*inputs)
    torch.testing.assert_close(found, function(*inputs), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_indices_choose(dtype, dynamic):
    """Negative and repeated indices, and rows with a remainder, give eager's results, with symbolic sizes, too."""
    torch.manual_seed(0)
    x = torch.randn(37, 53).mul(3).to(dtype)
    i, j = torch.randint(-53, 53, (29,)), torch.randint(0, 53, (37, 19))
    for function in PROGRAMS.values():
        check(function, x, i, j, dynamic=dynamic)


@pytest.mark.parametrize("side", [4, 8, 16, 32])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.uint8], ids=str)
def test_an_image_in_patches(side, dtype):
    """Rows of patches are contiguous vector loads if they are whole vectors; a chunked sum of them equals eager's."""
    x, count = torch.randn(2, 3, 64, 64).mul(9).to(dtype), 64 // side

    def patches(x):
        cut = x.reshape(2, 3, count, side, count, side).permute(0, 2, 4, 1, 3, 5)
        return cut.reshape(2, count * count, 3 * side * side) + 1

    def total(x):
        return torch.roll(patches(x).flatten().repeat(3), 16).to(torch.int64).sum()

    check(patches, x)
    check(total, x)


@pytest.mark.parametrize("dtype", DTYPES[:4], ids=str)
@pytest.mark.parametrize("scan", [torch.cummax, torch.cummin], ids=lambda each: each.__name__)
def test_the_best_so_far(scan, dtype):
    """cummax and cummin equal eager's for random, sorted and equal values: the last index of a tie counts."""
    torch.manual_seed(0)
    x = torch.randn(9, 140).mul(3).to(dtype)
    for each in (x, x.sort(1)[0], x.sort(1, descending=True)[0], torch.zeros_like(x)):
        check(lambda x: scan(x, 1), each)


@pytest.mark.parametrize("scan", [torch.cummax, torch.cummin], ids=lambda each: each.__name__)
def test_the_best_so_far_of_what_is_no_number(scan):
    """In cummax and cummin a nan wins, and a later nan wins over an earlier one."""
    x = torch.randn(5, 140)
    x[0, 5], x[1, 33:40], x[2, 2], x[3, :], x[4, 139] = (float(each) for each in ("nan", "nan", "inf", "-inf", "nan"))
    check(lambda x: scan(x, 1), x)


def test_an_index_that_is_also_a_number():
    """A value may be an index and an operand of a comparison: the code for both compiles."""
    torch.manual_seed(0)
    x, grid, i = torch.randn(1, 1, 4, 6), torch.randn(1, 2, 2, 2), torch.tensor([3])
    programs = [
        functools.partial(F.grid_sample, mode=mode, align_corners=align_corners)
        for mode in ("bilinear", "nearest")
        for align_corners in (False, True)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error", GeneratedCodeWarning)
        for function in programs:
            found = nbcompile.compile(lambda x, g, function=function: function(x, g), fullgraph=True)(x, grid)
            torch.testing.assert_close(found, function(x, grid))
        check(lambda x, i: x[i] * (i >= 2) + i, torch.randn(5), i)
