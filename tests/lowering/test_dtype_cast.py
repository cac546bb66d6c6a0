"""Dtype casts, and computation in bfloat16: eager's values."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.nn.functional as F

import nbcompile
from nbcompile.errors import GeneratedCodeWarning
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


@pytest.mark.parametrize("number", [2, 2.5, True, -0.0, 3 + 1j], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bfloat16, torch.bool])
def test_a_number_that_vmap_made_a_tensor(number, dtype):
    """``s * 2`` of scalars under vmap is generated code, with eager's dtype and value."""

    def function(x):
        return torch.vmap(lambda s: (s * number, s + number, s * s + number))(x)

    given = torch.tensor([1, 0, 3]).to(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error", GeneratedCodeWarning)
        found = nbcompile.compile(function)(given)
    for one, other in zip(found, function(given), strict=True):
        assert one.dtype == other.dtype
        assert one.equal(other)
