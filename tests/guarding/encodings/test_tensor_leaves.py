"""Leaf guards on tensors: a symbolic size accepts any size, and everything else is compared."""

from __future__ import annotations

import pytest
import torch

from nbcompile.capture.guard import Guard, GuardKind, TensorFacts
from nbcompile.capture.source import LocalSource
from nbcompile.guarding.encodings.table import leaf

X = LocalSource("x")
ONES = torch.ones(2, 3)


def matching(sizes, strides=None):
    return leaf(Guard(X, GuardKind.TENSOR_MATCH, TensorFacts(sizes, strides)), "L['x']", ONES)


def test_a_symbol_admits_any_size():
    """A size that is None is not compared; the text contains every size."""
    prepared = matching((None, 3))
    assert prepared.holds(torch.ones(7, 3)) and not prepared.holds(torch.ones(2, 4))
    assert "size=[None, 3]" in prepared.text


def test_strides_are_compared_where_they_are_known():
    """A transposed tensor of the same sizes fails a guard with known strides."""
    assert matching((2, 3), (3, 1)).holds(ONES) and not matching((2, 3), (3, 1)).holds(torch.ones(3, 2).t())
    assert matching((2, 3)).holds(torch.ones(3, 2).t())


@pytest.mark.parametrize(
    "other", [ONES.double(), ONES.clone().requires_grad_(), torch.nn.Parameter(ONES), torch.ones(2), None], ids=str
)
def test_dtype_gradient_class_and_rank_are_compared(other):
    """A difference in one of these properties fails the guard."""
    assert matching((None, None)).holds(torch.ones(5, 5)) and not matching((None, None)).holds(other)
