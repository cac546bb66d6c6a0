"""Errors of operators on sequences: their types and messages are Python's."""

from __future__ import annotations

import pytest
import torch

import nbcompile


def joined(x, left, right):
    try:
        return left + right
    except TypeError as error:
        return x + 1, str(error)


def repeated(x, left, right):
    try:
        return left * right
    except TypeError as error:
        return x + 1, str(error)


@pytest.mark.parametrize("function", [joined, repeated])
@pytest.mark.parametrize(
    ("left", "right"), [([1], (2,)), ((1,), [2]), ("a", 1.5), (b"a", "b"), ([1], "b"), (1.5, [1]), ("a", None)]
)
def test_the_message_is_pythons(function, left, right):
    """Which operand is named, and how, depends on both classes."""
    x = torch.ones(2)
    _, expected = function(x, left, right)
    result, message = nbcompile.compile(function, fullgraph=True)(x, left, right)
    assert torch.equal(result, x + 1)
    assert message == expected
