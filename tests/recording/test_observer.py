"""The record's facts about a frame before tracing."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn

import nbcompile
from nbcompile.views import text


def checked(function):
    """A typical decorator of a library."""

    @functools.wraps(function)
    def wrapper(self, *args):
        return function(self, *args)

    return wrapper


def counted(function):
    """The same decorator without a parameter for the object."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


class Counted(nn.Module):
    @counted
    def forward(self, x):
        return x.sin()


class Decorated(nn.Module):
    @checked
    def forward(self, x):
        return x.sin()


class Child(Decorated):
    pass


class Plain(nn.Module):
    def forward(self, x):
        return x.sin()


@pytest.mark.parametrize(
    ("module", "function", "method"),
    [
        (Decorated, "wrapper", "Decorated.forward"),
        (Child, "wrapper", "Child.forward"),
        (Counted, "wrapper", "Counted.forward"),
        (Plain, "forward", ""),
    ],
)
def test_a_decorated_method_has_the_name_that_is_called(module, function, method):
    """A wrapper's frame has the name of the decorated method; a method under its own name needs no other."""
    nbcompile.reset()
    record = nbcompile.explain(module(), backend="eager")(torch.ones(3)).record
    (frame,) = record.frames
    assert (frame.function, frame.method) == (function, method)
    title = f"[{frame.id}] {method}, in its decorator's wrapper  " if method else f"[{frame.id}] forward  "
    assert title in text.render(record)


def test_a_function_of_no_class_has_no_method():
    """A decorated function, and a function without arguments, have no method."""

    @checked
    def f(x):
        return x.sin()

    @counted
    def g():
        return torch.ones(2)

    def h():
        return torch.ones(2)

    for function, arguments in ((f, (torch.ones(3),)), (g, ()), (h, ())):
        nbcompile.reset()
        record = nbcompile.explain(function, backend="eager")(*arguments).record
        assert [frame.method for frame in record.frames] == [""]
