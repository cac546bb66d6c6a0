"""Mistakes in the ``backward`` of a torch.autograd.Function: they are found when autograd runs it, as in eager mode."""

from __future__ import annotations

import pytest
import torch

import nbcompile


def _raises(context, gradient):
    raise ValueError("in backward")


def _stops(context, gradient):
    raise StopIteration


def _misses_a_key(context, gradient):
    return {}["missing"]


def _misses_an_attribute(context, gradient):
    return context.missing * gradient


def _has_a_wrong_size(context, gradient):
    return gradient @ torch.ones(99)


def _has_a_wrong_view(context, gradient):
    return gradient.view(7, 7)


def _returns_too_many(context, gradient):
    return gradient, gradient


def _returns_too_few(context, gradient):
    return ()


def _returns_a_number(context, gradient):
    return 3


def _returns_another_shape(context, gradient):
    return gradient.sum()


def _returns_further_nones(context, gradient):
    return gradient * 2, None, None


def _returns_none(context, gradient):
    return None


BACKWARDS = (
    _raises,
    _stops,
    _misses_a_key,
    _misses_an_attribute,
    _has_a_wrong_size,
    _has_a_wrong_view,
    _returns_too_many,
    _returns_too_few,
    _returns_a_number,
    _returns_another_shape,
    _returns_further_nones,
    _returns_none,
)


def _doubling(rule):
    class Doubling(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x * 2

        backward = staticmethod(rule)

    return Doubling.apply


def _outcome(function):
    """The result and the gradient, or the type of the error of each half."""
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    result = function(x)
    try:
        result.sum().backward()
    except Exception as error:  # noqa: BLE001 - each rule raises another one
        return result.tolist(), type(error).__name__
    return result.tolist(), x.grad.tolist()


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("rule", BACKWARDS, ids=lambda rule: rule.__name__.strip("_"))
def test_a_mistake_in_backward_is_no_mistake_in_forward(rule, backend):
    """Forward has its result, and a handler around it catches nothing; backward raises eager mode's error."""
    apply = _doubling(rule)

    def function(x):
        return apply(x * 1) + x

    def handled(x):
        try:
            return apply(x * 1) + x
        except Exception:  # noqa: BLE001
            return x * 0

    for program in (function, handled):
        assert _outcome(nbcompile.compile(program, backend=backend)) == _outcome(program)


@pytest.mark.usefixtures("nothing_compiled")
def test_a_gradient_of_a_number_is_a_mistake():
    """Only None is accepted as the gradient of an input that is no tensor."""

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(context, x, scale):
            return x * scale

        @staticmethod
        def backward(context, gradient):
            return gradient, gradient

    def function(x):
        return Scaled.apply(x, 3)

    assert _outcome(nbcompile.compile(function, backend="eager")) == _outcome(function)


@pytest.mark.usefixtures("nothing_compiled")
def test_further_nones_keep_one_graph():
    """Autograd drops results of backward after the last input if they are None."""
    apply = _doubling(_returns_further_nones)
    compiled = nbcompile.compile(lambda x: apply(x) + 1, fullgraph=True, backend="aot_eager")
    assert _outcome(compiled) == _outcome(lambda x: apply(x) + 1)
