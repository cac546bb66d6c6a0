"""``Function.apply`` in all the ways that lead to it: in Python before torch 2.15, in C since.

In torch: nothing. Read next: nbcompile/tracing/calls/autograd.py
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import ones

from tests.support.oracle import Compiler, disagreement


class Scaled(torch.autograd.Function):
    factor = 3

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * Scaled.factor

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x * 5


class Through(Scaled):
    @classmethod
    def apply(cls, *arguments):
        return super().apply(*arguments) + 1


class Other(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 7

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 11


apply_of_a_global = Scaled.apply


class Holder:
    apply = Scaled.apply

    def __init__(self):
        self.stored = Scaled.apply


def by_class(x):
    return Scaled.apply(x)


def by_a_global(x):
    return apply_of_a_global(x)


def by_super(x):
    return Through.apply(x)


def by_an_attribute(x, holder=Holder()):
    return holder.stored(x) + holder.apply(x)


def by_getattr(x):
    return getattr(Scaled, "apply")(x)


def by_a_list(x):
    return sum(apply(x) for apply in [Scaled.apply, Other.apply])


def across_a_break(x):
    apply = Scaled.apply
    torch._dynamo.graph_break()
    return apply(x)


def given(x, apply=Scaled.apply):
    return apply(x)


WAYS = (by_class, by_a_global, by_super, by_an_attribute, by_getattr, by_a_list, across_a_break, given)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("trained", [False, True])
def test_ways_to_apply(way, trained):
    """Results and gradients equal eager mode's, whichever way the program reaches ``apply``."""

    def scenario(compiled: Compiler) -> Iterator[object]:
        f = compiled(way)
        for size in (2, 2, 3):
            x = ones(size, requires_grad=trained)
            y = f(x)
            yield y
            if trained:
                y.sum().backward()
                yield x.grad

    found = disagreement(scenario)
    assert not found, found


def test_another_apply_is_seen():
    """Code that was compiled for one function does not run for another one that is passed or stored under its name."""

    def scenario(compiled: Compiler) -> Iterator[object]:
        f, g = compiled(given), compiled(by_an_attribute)
        holder = Holder()
        yield f(ones(2)), g(ones(2), holder)
        holder.stored = Other.apply
        yield f(ones(2), Other.apply), g(ones(2), holder)
        yield f(ones(2), lambda x: x - 1), f(ones(2))

    found = disagreement(scenario)
    assert not found, found


def test_an_apply_that_is_replaced_is_seen():
    """A class whose ``apply`` is replaced after the first call uses the new one at the next call."""

    def scenario(compiled: Compiler) -> Iterator[object]:
        class Own(Scaled):
            pass

        f = compiled(lambda x: Own.apply(x))
        yield f(ones(2))
        Own.apply = lambda x: x - 1
        yield f(ones(2))
        del Own.apply
        yield f(ones(2))

    found = disagreement(scenario)
    assert not found, found
