"""Attributes of one object with the name of a method of its class: Python finds them first.

In torch: nothing. Read next: nbcompile/tracing/variables/tensor_properties.py
"""

from __future__ import annotations

import pytest
import torch

import nbcompile


class Named(torch.Tensor):
    def double(self):
        return self * 2


def plain():
    return torch.ones(2)


def parameter():
    return torch.nn.Parameter(torch.ones(2))


def of_a_class():
    return torch.ones(2).as_subclass(Named)


def by_name(x):
    return x * 2, x.t


def called(x):
    return x * x.sum()


def stored_and_called(x):
    x.sum = lambda: 5
    return x * x.sum()


def changed(x):
    return x.add_(1).sum() * x.sum(), x.mul_(2).t


def special(x):
    return x + 1, x.shape, x.__len__(), len(x)


FUNCTIONS = (by_name, called, stored_and_called, changed, special)


def prepared(create):
    x = create()
    with torch.no_grad():
        x.mul_(1)
    x.sum, x.t = lambda: 4, 3
    x.__dict__["shape"] = 9
    return x


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("create", [plain, of_a_class], ids=lambda function: function.__name__)
def test_a_tensor_s_own_attribute_comes_before_a_method_of_torch(create, function, backend):
    """A tensor with an attribute ``sum`` or ``t`` has no method of that name, in a graph as in Python."""
    expected = function(prepared(create))
    result = nbcompile.compile(function, backend=backend)(prepared(create))
    assert str(result) == str(expected)


def test_a_parameter_s_own_attribute_comes_first():
    """The same of a parameter, under gradients."""
    given = prepared(parameter)
    nbcompile.compile(called, backend="aot_eager")(given).sum().backward()
    assert given.grad.tolist() == [4, 4]


def test_a_tensor_without_the_attribute_is_recompiled():
    """The code for a tensor with the attribute does not run for one that has none."""
    f = nbcompile.compile(called, backend="aot_eager")
    assert [f(prepared(plain)).tolist(), f(plain()).tolist()] == [[4, 4], [2, 2]]


def test_a_module_s_own_call_impl_is_called():
    """``module._call_impl = function`` replaces the call, as ``_wrapped_call_impl`` reads it from the module."""
    module = torch.nn.ReLU()
    module._call_impl = lambda x: x + 5
    x = torch.ones(2)
    assert nbcompile.compile(lambda x: module(x) * 2, backend="aot_eager")(x).tolist() == [12, 12]
    assert nbcompile.compile(module, backend="aot_eager")(x).tolist() == [6, 6]
