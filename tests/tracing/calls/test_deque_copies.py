"""Copies of deques of a subclass: Python calls the class to create them."""

from __future__ import annotations

import collections
import copy

import pytest
import torch

import nbcompile


class Window(collections.deque):
    """A subclass that adds nothing."""


class Last(collections.deque):
    """A subclass with its own constructor."""

    def __init__(self, items=(), maxlen=3):
        super().__init__(items, maxlen)
        self.made = "here"


WINDOW, LAST = Window([7]), Last([1, 2])


def shown(value):
    if not isinstance(value, collections.deque):
        return value
    return type(value), list(value), value.maxlen, getattr(value, "__dict__", None)


PROGRAMS = {
    "made here": lambda d: [Window([1, 2]), Last([1, 2, 3, 4]), Window("ab", 1), Window(d)],
    "joined": lambda d: [d + d, Last([5]) + d, d + collections.deque([0]), collections.deque([0]) + d],
    "repeated": lambda d: [d * 2, 2 * d, Last([5, 6]) * 2],
    "copied": lambda d: [d.copy(), copy.copy(d), Last([1]).copy()],
    "by name": lambda d: [d.__add__(d), d.__mul__(2), d.__rmul__(2)],
    "globals": lambda d: [WINDOW + LAST, LAST + WINDOW, WINDOW * 3, LAST * 2],
    "repeated in place": lambda d: (lambda made: [made, made.__imul__(2) is made, made])(Last([1, 2])),
}


@pytest.mark.parametrize("given", [Window([1]), Last([4, 5])], ids=["plain", "constructor"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_copies_are_of_the_class(name, given):
    """``+``, ``*`` and ``copy`` return an object of the left operand's class, with the same maximum length."""

    def function(x, given):
        return x + 1, PROGRAMS[name](given)

    nbcompile.reset()
    x = torch.ones(2)
    expected = [shown(value) for value in function(x, given)[1]]
    found = nbcompile.compile(function, backend="eager", fullgraph=True)(x, given)[1]
    assert [shown(value) for value in found] == expected


def test_a_deque_repeated_in_place_keeps_its_greatest_length():
    """The deque contains the last items afterwards."""

    def function(x):
        items = collections.deque([1, 2], 3)
        items *= 2
        return x + 1, items

    x = torch.ones(2)
    assert nbcompile.compile(function, fullgraph=True)(x)[1] == function(x)[1] == collections.deque([2, 1, 2])
