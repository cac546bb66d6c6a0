"""Hooks on tensors that the traced code registers."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from tests.support.oracle import disagreement


def test_a_hook_changes_the_gradient():
    """A hook on a result of the graph changes the gradient as in eager mode; a removed hook has no effect."""

    def function(x, scale):
        y = x * 2
        y.register_hook(lambda gradient: gradient * scale)
        handle = y.register_hook(lambda gradient: gradient * 100)
        handle.remove()
        return y.sin().sum()

    def scenario(compiled):
        f = compiled(function)
        for scale in (3.0, 5.0):
            x = torch.ones(2, requires_grad=True)
            f(x, scale).backward()
            yield x.grad

    assert not disagreement(scenario)


def _raises(gradient):
    raise ValueError("in a hook")


def _has_a_wrong_size(gradient):
    return gradient @ torch.ones(99)


def _returns_a_number(gradient):
    return 3


def _returns_another_shape(gradient):
    return gradient.sum()


def _returns_none(gradient):
    return None


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("hook", [_raises, _has_a_wrong_size, _returns_a_number, _returns_another_shape, _returns_none])
def test_a_mistake_in_a_hook_is_found_when_it_runs(hook, backend):
    """The function has its result, and a handler around the registration catches nothing; the backward raises."""

    def function(x):
        y = x * 2
        y.register_hook(hook)
        return y * 3

    def handled(x):
        try:
            return function(x)
        except Exception:  # noqa: BLE001
            return x * 0

    def outcome(program):
        x = torch.arange(6.0).reshape(2, 3).requires_grad_()
        result = program(x)
        try:
            result.sum().backward()
        except Exception as error:  # noqa: BLE001 - each hook raises another one
            return result.tolist(), type(error).__name__
        return result.tolist(), x.grad.tolist()

    for program in (function, handled):
        assert outcome(nbcompile.compile(program, backend=backend)) == outcome(program)
