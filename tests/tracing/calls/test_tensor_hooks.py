"""Hooks on tensors that the traced code registers."""

from __future__ import annotations

import torch

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
