"""A plain tensor that ``as_subclass`` creates is another object that shares its argument's memory.

Read next: tests/tracing/variables/test_subclasses_questions.py
"""

from __future__ import annotations

import pytest
import torch

import nbcompile

Plain = torch.Tensor


def of_a_result(x):
    y = x * 2
    z = y.as_subclass(Plain)
    return y is z, y, z


def written(x):
    y = x.as_subclass(Plain)
    y.add_(1)
    return y is x, y, x


def with_an_attribute(x):
    y = x.as_subclass(Plain)
    y.k = 1
    return hasattr(x, "k"), y, x + 1


def requiring_grad(x):
    y = x.clone().as_subclass(Plain)
    y.requires_grad_()
    return x.requires_grad, y, x * 2


def with_gradient(x):
    y = (x * x).as_subclass(Plain)
    return y.sum(), y


PROGRAMS = [of_a_result, written, with_an_attribute, requiring_grad, with_gradient]


def seen(function, needs_grad, says_views):
    x = torch.arange(3.0, requires_grad=needs_grad)
    values = function(x)
    tensors = [value for value in (*values, x) if isinstance(value, torch.Tensor)]
    return [value for value in values if isinstance(value, bool)], [
        (
            one.tolist(), one._is_view() and says_views, one.requires_grad, one.is_leaf, one._version, vars(one),
            [one is other for other in tensors], [one.data_ptr() == other.data_ptr() for other in tensors],
        )
        for one in tensors
    ]  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_as_subclass_of_a_plain_tensor(function, backend):
    """Identity, memory, versions and attributes are eager mode's; with AOTAutograd, ``_is_view`` may differ."""
    nbcompile.reset()
    options = function is with_gradient, backend == "eager"
    assert seen(nbcompile.compile(function, backend=backend), *options) == seen(function, *options)


class Sub(torch.Tensor):
    """A class that overrides nothing."""


RECORDS = {
    "qr": torch.linalg.qr,
    "sort": torch.sort,
    "topk": lambda x: x.topk(2),
    "aminmax": torch.aminmax,
    "item": lambda x: torch.sort(x).values + 1,
    "unpacked": lambda x: [type(each).__name__ for each in x.max(0)],
    "list": lambda x: torch.unbind(x),
}


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("name", RECORDS)
def test_items_of_a_record_are_of_the_class(name):
    """``sort``, ``topk`` and ``qr`` return torch's named tuple, whose items have the class of the argument."""
    function, x = RECORDS[name], torch.randn(4, 4).as_subclass(Sub)
    expected, result = function(x), nbcompile.compile(lambda given: function(given), fullgraph=True)(x)
    assert type(result) is type(expected)
    kept = [[each] if isinstance(each, torch.Tensor) else each for each in (expected, result)]
    for one, other in zip(*kept, strict=True):
        assert type(one) is type(other)
        if isinstance(one, Sub):
            torch.testing.assert_close(one.as_subclass(Plain), other.as_subclass(Plain), rtol=0, atol=0)
