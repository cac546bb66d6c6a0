"""Reductions compute what eager computes: of everything, of rows, of columns, as numbers for what follows."""

from __future__ import annotations

import pytest
import torch

from tests.lowering.families import b, check_family, every_way, n, v, x

FAMILIES = {
    "sums and extremes": (
        lambda x, n, b: [
            x.sum(),
            x.sum(0),
            x.sum(1, keepdim=True),
            x.mean(),
            x.mean(1),
            n.sum(1),
            b.sum(0),
            x.amax(1),
            x.amin(),
            x.max(),
            x.min(),
            x.max(1),
            x.min(0),
            x.argmax(),
            x.argmin(1, keepdim=True),
            x.prod(),
            x.prod(1),
            (x > 0).any(),
            (x > 0).all(1),
            n.any(1),
            n.prod(0),
            b.amax(1),
        ],
        (x, n, b),
    ),
    "variances and norms": (
        lambda x: [
            x.var(),
            x.var(1),
            x.std(0, keepdim=True),
            *torch.var_mean(x, 1),
            x.var(1, correction=0),
            torch.logsumexp(x, 1),
            x.norm(),
            x.norm(dim=1),
            x.norm(p=1, dim=1),
            x.norm(p=float("inf")),
            x.norm(p=3, dim=0),
        ],
        (x,),
    ),
    "a number and what uses it": (lambda x: [x.sum() * 2 + x, x / x.sum(), (x - x.mean()) / x.std()], (x,)),
    "values that several reductions share": (
        lambda x, v: [
            (x + v * 2) * 3,
            (x * v.exp()).sum(1),
            (x.exp() * v.exp() + 1).sum(0),
            x.exp().sum(1),
            x.exp().sum(0),
            x.exp(),
        ],
        (x, v),
    ),
}


@every_way
@pytest.mark.parametrize("name", FAMILIES)
def test_family(name, how):
    """Program and schedule give eager's values, dtypes and strides, without ATen."""
    check_family(*FAMILIES[name], how)
