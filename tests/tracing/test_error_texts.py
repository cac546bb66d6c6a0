"""Errors that Python raises in a traced program: their class and text are the same."""

import collections
from typing import NamedTuple

import pytest
import torch

import nbcompile

X = torch.ones(3)


class Point(NamedTuple):
    """A named tuple of two numbers."""

    x: int
    y: int


class Listed(list):
    """A subclass of list."""


def no_longer_there(x):
    def inner():
        y = x * 2
        del y
        return lambda: y

    return inner()()


def not_yet_there(x):
    def inner():
        return y

    y = y + 1  # noqa: F821
    return inner


def changed_before_it_is_there(x):
    def inner():
        y *= 2
        return lambda: y

    return inner()


def deleted_twice(x):
    y = x

    def inner():
        return y

    del y
    del y
    return inner


def deleted_twice_from_inside(x):
    y = x

    def inner():
        nonlocal y
        del y
        del y

    inner()


MISTAKES = {
    "size": lambda x: x.shape[9],
    "tuple": lambda x: (1, x)[9],  # noqa: PLE0643
    "list": lambda x: [x][9],  # noqa: PLE0643
    "class of a list": lambda x: Listed([1])[9],
    "named tuple": lambda x: Point(1, 2)[9],
    "results of an operator": lambda x: x.max(0)[5],
    "deque": lambda x: collections.deque([1])[9],
    "item of a list": lambda x: [1].__setitem__(9, 1),
    "item of a deque": lambda x: collections.deque([1]).__setitem__(9, 1),
    "deleted item": lambda x: [1].__delitem__(9),
    "deleted item of a deque": lambda x: collections.deque([1]).__delitem__(9),
    "no longer there": no_longer_there,
    "not yet there": not_yet_there,
    "changed before it is there": changed_before_it_is_there,
    "deleted twice": deleted_twice,
    "deleted twice from inside": deleted_twice_from_inside,
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    """An exception that the program handles has eager mode's class and text."""
    nbcompile.reset()
    mistake = MISTAKES[name]

    def f(x):
        try:
            mistake(x)
        except Exception as error:
            return x + 1, type(error), str(error)
        return x + 1, None, ""

    _, *expected = f(X)
    assert expected[0] is not None
    _, *found = nbcompile.compile(f, backend="eager", fullgraph=True)(X)
    assert found == expected
