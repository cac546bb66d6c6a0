"""Tests for nbcompile.ir.eager_operations: each operation of the loop IR is defined on whole tensors."""

from __future__ import annotations

import pytest
import torch

from nbcompile.ir import expr
from nbcompile.ir.eager_operations import EVALUATE, combine, scan, update_element


def test_every_operation_of_the_ir_has_a_meaning():
    """The evaluator defines exactly the operations of the IR."""
    assert set(EVALUATE) == set(expr.OPERATIONS)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("sum", [6.0, 15.0]), ("prod", [6.0, 120.0]), ("max", [3.0, 6.0]), ("min", [1.0, 4.0])],
)
def test_reductions(kind, expected):
    """A reduction is over the last dimensions."""
    value = torch.arange(1.0, 7.0).reshape(2, 3)
    assert combine(kind, value, None, 1).tolist() == expected
    assert combine(kind, value.reshape(2, 3, 1), None, 2).tolist() == expected


def test_argmax_gives_the_smallest_index_of_equal_elements():
    """Among equal elements, or several NaN, argmax returns the first index."""
    index = torch.arange(4).expand(2, 4)
    value = torch.tensor([[1.0, 3.0, 3.0, 0.0], [0.0, float("nan"), float("nan"), 9.0]])
    assert combine("argmax", value, index, 1).tolist() == [1, 1]


def test_scans():
    """A scan combines each element with those before it; argmax gives the index of the maximum so far."""
    value, index = torch.tensor([1.0, 3.0, 2.0]), torch.tensor([5, 6, 7])
    assert scan("sum", value, index, 0).tolist() == [1.0, 4.0, 6.0]
    assert scan("max", value, index, 0).tolist() == [1.0, 3.0, 3.0]
    assert scan("argmax", value, index, 0).tolist() == [5, 6, 6]


def test_updates():
    """An update stores a value, or combines it with the old value."""
    target = torch.tensor([1.0, 2.0])
    update_element(target, (torch.tensor(0),), "sum", torch.tensor(4.0))
    update_element(target, (torch.tensor(1),), "store", torch.tensor(9.0))
    assert target.tolist() == [5.0, 9.0]


@pytest.mark.parametrize("kind", ["mean", "store"])
def test_unknown_kinds_are_rejected(kind):
    """An unknown kind raises an error that names it."""
    with pytest.raises(ValueError, match=kind):
        combine(kind, torch.ones(2), None, 1)
    with pytest.raises(ValueError, match=kind):
        scan(kind, torch.ones(2), torch.arange(2), 0)
