"""Tests for nbcompile.tracing.calls.instances: isinstance of what answers by itself."""

from __future__ import annotations

import typing

import pytest
import torch

import nbcompile


@typing.runtime_checkable
class Scaled(typing.Protocol):
    scale: float


@typing.runtime_checkable
class Shaped(typing.Protocol):
    shape: tuple


class WithScale:
    scale = 2.0


@pytest.mark.parametrize(
    "value", [None, 3, 2.5, "text", b"x", True, (), [1], {"a": 1}, {1}, WithScale(), torch.ones(2), torch.nn.ReLU()]
)
def test_a_protocol_with_attributes(value):
    """It is asked about a value, as classes cannot be asked: what has the attributes is an instance."""

    def program(x, value):
        return x + isinstance(value, Scaled), isinstance(value, (int, Shaped))

    nbcompile.reset()
    x = torch.ones(2)
    result, shaped = nbcompile.compile(program, backend="eager", fullgraph=True)(x, value)
    expected, truth = program(x, value)
    assert torch.equal(result, expected)
    assert shaped == truth


def test_a_protocol_with_attributes_and_changing_numbers():
    """A number that became a symbol is asked like any other of its class."""

    def program(x, value):
        return x * value + isinstance(value, Scaled)

    nbcompile.reset()
    compiled, x = nbcompile.compile(program, backend="eager", fullgraph=True), torch.ones(2)
    for value in (3, 2.5, 4.5, 5.5, 7, 8):
        assert torch.equal(compiled(x, value), program(x, value))
