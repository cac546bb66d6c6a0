"""Inputs that require grad and have no gradient: autograd has an edge to them where eager mode's autograd has one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import nbcompile

BACKENDS = ("inductor", "aot_eager")


class Passes(torch.autograd.Function):
    """A function with the result ``2 * x``, and no gradient for ``w``."""

    @staticmethod
    def forward(ctx, x, w):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2, None


def frozen(x, w):
    with torch.no_grad():
        scale = w * 2
    return x * scale


def written(x, w):
    x = x.clone()
    with torch.no_grad():
        x.add_(w)
    return x * 3


def detached(x, w):
    return x * w.detach()


def compared(x, w):
    return torch.where(w > 1, x, x * 2)


def through_a_function(x, w):
    return Passes.apply(x, w)


def through_a_function_beside_no_grad(x, w):
    with torch.no_grad():
        scale = w.sum()
    return Passes.apply(x, w) * scale


def not_used(x, w):
    return x * 2


PROGRAMS = (
    frozen, written, detached, compared, through_a_function, through_a_function_beside_no_grad,
    not_used,
)  # fmt: skip


def seen(program, through=None):
    """The arguments of both inputs' hooks, the gradients, and whether the result requires grad."""
    given = [torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 0.5], requires_grad=True)]
    calls = []
    for name, tensor in zip("xw", given, strict=True):
        tensor.register_hook(
            lambda gradient, name=name: calls.append((name, None if gradient is None else gradient.tolist()))
        )
        tensor.register_post_accumulate_grad_hook(lambda _, name=name: calls.append((name, "accumulated")))
    arguments = given if through is None else [through(each) for each in given]
    result = program(*arguments)
    facts = [result.requires_grad, result.tolist()]
    if result.requires_grad:
        result.sum().backward()
    return facts, sorted(map(str, calls)), [each.grad is not None and each.grad.tolist() for each in given]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("through", [None, torch.abs], ids=["leaves", "with history"])
def test_hooks_run_as_in_eager_mode(program, backend, through):
    """A hook gets None if a derivative returned None for a leaf; it does not run if there is no edge."""
    assert seen(nbcompile.compile(program, backend=backend), through) == seen(program, through)


@pytest.mark.parametrize("backend", BACKENDS)
def test_parameters_under_no_grad_keep_their_hooks_silent(backend):
    """A gradient hook that computes with its argument does not get None from a model part under ``no_grad``."""

    def trained(compiled):
        torch.manual_seed(0)
        gate, head = nn.Linear(4, 4), nn.Linear(4, 2)
        gate.weight.register_hook(lambda gradient: gradient * 3)

        def step(x):
            with torch.no_grad():
                hidden = gate(x)
            return head(hidden)

        (compiled(step)(torch.ones(3, 4)) ** 2).sum().backward()
        return gate.weight.grad, head.weight.grad

    assert trained(lambda step: nbcompile.compile(step, backend=backend))[0] is None
    torch.testing.assert_close(
        trained(lambda step: nbcompile.compile(step, backend=backend))[1], trained(lambda step: step)[1]
    )
