"""New objects of users' classes."""

from __future__ import annotations

import torch

import nbcompile


class Point(list):
    """A list with an attribute."""

    def __new__(cls, *items):
        made = super().__new__(cls)
        made.count = len(items)
        return made

    def __init__(self, *items):
        super().__init__(items)


def test_new_and_init_of_a_list_run():
    """The object that leaves traced code has the class, the items and the attribute of an eager one."""

    def program(x):
        return Point(x + 1, x + 2)

    x = torch.randn(3)
    found, expected = nbcompile.compile(program, backend="eager", fullgraph=True)(x), program(x)
    assert type(found) is Point
    assert found.count == expected.count == 2
    assert all(left.equal(right) for left, right in zip(found, expected, strict=True))
