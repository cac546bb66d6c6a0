"""Tests for nbcompile.tracing.calls.built_in_operands: which built-in classes accept which operands."""

from __future__ import annotations

import pytest
import torch

from nbcompile.tracing.calls.built_in_operands import is_accepted


@pytest.mark.parametrize(
    ("kind", "name", "operand", "accepted"),
    [
        (int, "__add__", float, False),  # float.__radd__ implements it
        (float, "__radd__", int, True),
        (int, "__add__", str, False),
        (set, "__or__", frozenset, True),
        (set, "__or__", list, False),
        (list, "__le__", tuple, False),
        (str, "__mod__", object, True),  # it raises an error, which counts as acceptance
        (list, "__add__", object, False),  # a method of sequences comes last
        (torch.Tensor, "__add__", float, True),
        (type(None), "__add__", int, False),  # the method does not exist
    ],
)
def test_a_built_in_class_accepts_a_sample_of_the_operand(kind, name, operand, accepted):
    """A built-in class leaves an operator to the other operand only if its method returns NotImplemented."""
    assert is_accepted(kind, name, operand) is accepted
