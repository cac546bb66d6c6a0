"""Values that hold themselves, by way of a method, a function, a partial or a weak reference: behind the graph as in
eager mode."""

from __future__ import annotations

import functools
import weakref

import pytest
import torch

import nbcompile


class Node:
    """An object that holds what the programs below store."""

    def itself(self):
        """Return the object, which the method needs."""
        return self


def _method(x):
    node = Node()
    node.method = node.itself
    return node.method, x + 1


def _methods_in_containers(x):
    node = Node()
    node.listed = [node.itself]
    node.named = {"a": node.listed}
    node.first = node.listed[0]
    return node.first, node.listed, x + 1


def _method_of_a_part(x):
    node = Node()
    node.method, node.part = node.itself, Node()
    node.part.parent, node.part.method = node, node.method
    return node.part.method, node.part.itself, x + 1


def _partial(x):
    node = Node()
    node.partial = functools.partial(node.itself)
    return node.partial, x + 1


def _weak(x):
    node = Node()
    node.weak = weakref.ref(node)
    return node.weak, node, x + 1


def _closure(x):
    node = Node()
    node.get = lambda: node
    return node.get, x + 1


def _two_objects(x):
    one, other = Node(), Node()
    one.other, other.other = other, one
    other.get = lambda: (one, other)
    one.get = other.get
    return other.get, one.itself, other.itself, x + 1


def _two_functions(x):
    node = Node()

    def a():
        return b

    def b():
        return a, node

    node.first, node.listed = a, [b, a]
    return a, node.itself, x + 1


def _tuple_in_its_list(x):
    items = []
    pair = (items, x + 1)
    items.append(pair)
    return pair


SAME = {
    _method: lambda r: [(r[0], r[0]().method)],
    _methods_in_containers: lambda r: [(r[0], r[1][0]), (r[1], r[0]().named["a"]), (r[0], r[0]().first)],
    _method_of_a_part: lambda r: [(r[0], r[0]().method), (r[0](), r[1]().parent), (r[1]().method, r[0])],
    _partial: lambda r: [(r[0], r[0]().partial)],
    _weak: lambda r: [(r[0](), r[1]), (r[1].weak, r[0])],
    _closure: lambda r: [(r[0], r[0]().get)],
    _two_objects: lambda r: [(r[0], r[0]()[0].get), (r[1](), r[0]()[0]), (r[2]().other, r[1]()), (r[2]().get, r[0])],
    _two_functions: lambda r: [(r[0], r[0]()()[0]), (r[0]()()[1], r[1]()), (r[1]().listed[1], r[0])],
    _tuple_in_its_list: lambda r: [(r, r[0][0])],
}
"""Pairs that are one object in the result of each program."""


@pytest.mark.parametrize("function", SAME, ids=lambda function: function.__name__)
def test_a_value_that_holds_itself_is_created_once(function):
    """The graph is captured whole, and what is one object in eager mode is one object behind the graph."""
    result = nbcompile.compile(function, backend="eager", fullgraph=True)(torch.ones(2))
    for one, other in (*SAME[function](function(torch.ones(2))), *SAME[function](result)):
        assert one is other


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("function", SAME, ids=lambda function: function.__name__)
def test_a_value_that_holds_itself_passes_a_break(function):
    """The rest of a frame behind a break gets the same objects."""

    def broken(x):
        result = function(x)
        torch._dynamo.graph_break()
        return result

    for one, other in SAME[function](nbcompile.compile(broken, backend="eager")(torch.ones(2))):
        assert one is other
