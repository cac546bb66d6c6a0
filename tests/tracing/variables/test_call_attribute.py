"""``f.__call__`` and other special methods of functions and classes, each a new object at each lookup."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from tests.support.graphs import Graphs


class Called:
    def __call__(self, x):
        return x * 2


class Plain:
    pass


def add_one(x):
    return x + 1


def has(x, value, name):
    return x * (2 if hasattr(value, name) else 3), callable(value)


@pytest.mark.parametrize("name", ["__call__", "__init__", "__eq__", "__hash__", "__len__"])
@pytest.mark.parametrize("turn", [1, -1])
def test_what_has_a_special_method(name, turn):
    """``hasattr`` and ``callable`` of functions, classes, methods and objects are traced and guarded."""
    values = [add_one, Called(), Plain(), Plain, Called, int, lambda x: x, Called().__call__, add_one.__call__, 5, "a"]
    for value in values[::turn]:
        compiled = nbcompile.compile(has, backend="eager", fullgraph=True)
        assert compiled(torch.ones(1), value, name) == has(torch.ones(1), value, name)
        nbcompile.reset()
    compiled = nbcompile.compile(has, backend="eager", fullgraph=True)
    for value in [values[0], values[1], values[2], values[6], values[9]][::turn]:
        assert compiled(torch.ones(1), value, name) == has(torch.ones(1), value, name)


@pytest.mark.parametrize("function", [add_one, Called(), torch.sin, torch.nn.Linear(1, 1), lambda x: x * 3])
def test_a_call_by_name(function):
    """``function.__call__`` is traced as a call of the function."""

    def called(x, function):
        return function.__call__(x), function.__call__(function.__call__(x))

    compiled = nbcompile.compile(called, backend="eager", fullgraph=True)
    assert compiled(torch.ones(1), function) == called(torch.ones(1), function)


def test_a_closure_made_anew_is_no_new_program():
    """The guard on ``__call__`` holds for every function with the same code."""
    counts = Graphs()

    def made(number):
        return lambda x: x + 1

    compiled = nbcompile.compile(has, backend=counts)
    for number in range(3):
        compiled(torch.ones(1), made(number), "__call__")
    assert len(counts) == 1
