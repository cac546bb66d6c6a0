"""Families of operators, each compiled whole, decomposed and with dynamic sizes; and their input tensors.

FAMILIES = {"casts": (lambda x: [x.double(), x.bool()], (x,))}

@every_way
@pytest.mark.parametrize("name", FAMILIES)
def test_family(name, how):
    check_family(*FAMILIES[name], how)
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest
import torch

from tests.support.lowered import check

torch.manual_seed(0)
x, y, v = torch.randn(8, 16), torch.randn(8, 16), torch.randn(16)
i, n = torch.randint(0, 8, (5,)), torch.randint(-5, 9, (8, 16))
b, h, big = x > 0, x.bfloat16(), torch.randn(2, 3, 4, 5)

WAYS = {"whole": {}, "decomposed": {"decomposed": True}, "dynamic": {"dynamic": True}}
every_way = pytest.mark.parametrize("how", WAYS)


def check_family(
    function: Callable[..., Any], inputs: tuple[Any, ...], how: str, needs_aten: Collection[str] = ()
) -> None:
    """Check one family in one way; ``needs_aten`` lists the ways in which it calls ATen."""
    check(function, *inputs, allow_extern=how in needs_aten, **WAYS[how])
