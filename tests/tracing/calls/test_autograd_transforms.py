"""``Function.apply`` inside of the transforms of ``torch.func``.

In torch: test/functorch/test_eager_transforms.py. Read next: nbcompile/tracing/calls/autograd.py
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import ones
from torch.func import functionalize, grad, jvp, vmap

from tests.support.oracle import Compiler, disagreement


class Doubled(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * 5


class WithRule(Doubled):
    generate_vmap_rule = False

    @staticmethod
    def vmap(info, in_dims, x):
        return x * 7, 0


class Combined(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3


TRANSFORMS = {
    "vmap": lambda apply, x: vmap(apply)(x),
    "vmap of grad": lambda apply, x: vmap(grad(lambda each: apply(each).sum()))(x),
    "grad of vmap": lambda apply, x: grad(lambda each: vmap(apply)(each).sum())(x),
    "jvp": lambda apply, x: jvp(apply, (x,), (x,)),
    "functionalize": lambda apply, x: functionalize(lambda each: apply(each) + 1)(x),
    "grad": lambda apply, x: grad(lambda each: apply(each).sum())(x),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("function", [Doubled, WithRule, Combined], ids=lambda function: function.__name__)
def test_transforms_use_the_rules_of_the_program(transform, function):
    """Each transform uses the program's ``backward``, ``jvp`` and ``vmap``, and rejects what functorch rejects."""
    called = TRANSFORMS[transform]

    def scenario(compiled: Compiler) -> Iterator[object]:
        f = compiled(lambda x: called(function.apply, x))
        try:
            yield f(ones(2))
        except RuntimeError as error:
            yield str(error)[:80]

    found = disagreement(scenario)
    assert not found, found


@pytest.mark.parametrize("function", [Doubled, WithRule], ids=lambda function: function.__name__)
def test_the_gradient_of_a_mapped_function_is_of_its_backward(function):
    """The gradient through ``vmap(Function.apply)`` is that of ``backward``, not that of the operators in forward."""

    def scenario(compiled: Compiler) -> Iterator[object]:
        x = ones(2, requires_grad=True)
        result = compiled(lambda x: vmap(function.apply)(x))(x)
        result.sum().backward()
        yield result, x.grad

    found = disagreement(scenario)
    assert not found, found
