"""Torch function modes: which ones allow a graph break in their block, and the stack of modes."""

from __future__ import annotations

import types

import pytest
import torch
from torch.overrides import TorchFunctionMode

import nbcompile
from nbcompile.tracing import breaks
from nbcompile.tracing.variables import function_modes
from nbcompile.tracing.variables.constant import ConstantVariable


class Doubling(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.sin else result


class Entering(Doubling):
    def __enter__(self):
        return super().__enter__()


def test_a_plain_mode_is_only_pushed_and_popped():
    """A class with its own ``__enter__`` is not a plain mode, and neither is a class that is not a mode."""
    assert function_modes.is_plain_mode(Doubling)
    assert not function_modes.is_plain_mode(Entering)
    assert not function_modes.is_plain_mode(torch.Tensor)


def test_the_mode_that_was_pushed_last_is_popped_first():
    """A mode from outside cannot be popped: the frame that entered it does that."""
    outer, inner = ConstantVariable(1), ConstantVariable(2)
    tracer = types.SimpleNamespace(overrides=types.SimpleNamespace(modes=[outer], around=[outer]))
    function_modes.push(tracer, inner)
    assert function_modes.pop(tracer) is inner
    with pytest.raises(breaks.Unsupported, match="from outside"):
        function_modes.pop(tracer)
    tracer.overrides.modes.clear()
    with pytest.raises(breaks.Unsupported, match="from outside"):
        function_modes.pop(tracer)


def test_a_break_inside_of_a_mode_enters_it_again():
    """Torch functions call the mode before and after a break in its block, and not after the block."""

    def function(x):
        with Doubling():
            y = torch.sin(x)
            torch._dynamo.graph_break()
            z = torch.sin(x)
        return y, z, torch.sin(x)

    x = torch.ones(2)
    for found, expected in zip(nbcompile.compile(function, backend="eager")(x), function(x), strict=True):
        assert torch.equal(found, expected)
