"""Observed facts of values by path: bits, strides, identity, memory."""

from __future__ import annotations

import array
import collections
import fractions
import functools
import types

import numpy as np
import pytest
import torch

from nbcompile.tools.fuzz import observe as observing
from nbcompile.tools.fuzz.compare import compare
from nbcompile.tools.fuzz.observe import observe


class Own:
    """A user's class with attributes in its dict."""

    __module__ = observing.PROGRAM

    def one(self):
        """A method."""

    def other(self):
        """Another method."""


class Number(int):
    """A subclass of a number."""


class Word(str):
    """A subclass of str."""

    __slots__ = ()


def having(value, **attributes):
    for name, attribute in attributes.items():
        setattr(value, name, attribute)
    return value


def network(*names):
    model = torch.nn.Module()
    for name in names:
        model.register_buffer(name, torch.ones(1))
    return model


def keyed(*values):
    return {object(): value for value in values}


def differ(one, other):
    return compare(observe(one), observe(other), approximate=False) is not None


@pytest.mark.parametrize(("one", "other"), [
    (torch.zeros(2), -torch.zeros(2)),
    (torch.ones(2, 2), torch.ones(2, 2, dtype=torch.float64)),
    (torch.ones(2, 2), torch.ones(4).as_strided((2, 2), (1, 2))),
    (torch.ones(2), torch.ones(2, requires_grad=True)),
    (1, True), (0.0, -0.0), ([1], (1,)), ({"a": 1}, {"b": 1}),
], ids=repr)  # fmt: skip
def test_facts_that_a_program_can_distinguish_are_observed(one, other):
    """Signs of zero, dtype, strides, gradients, types and keys are observed, and equal values are equal."""
    assert differ(one, other) and not differ(one, one)


def test_one_object_met_twice_is_named_by_its_first_place():
    """One object at two paths differs from two equal objects."""
    x = [1]
    assert differ((x, x), (x, [1]))
    assert "is [0]" in str(observe((x, x))["[1]"])


def test_memory_that_two_tensors_share_is_observed():
    """A view differs from a copy with the same elements."""
    x = torch.ones(4)
    assert differ((x, x[:2]), (x, x[:2].clone()))


ORDERED = {
    "dict": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "dict in a list in a dict": ({"x": [{1: 1, 2: 2}]}, {"x": [{2: 2, 1: 1}]}),
    "OrderedDict": (collections.OrderedDict(a=1, b=2), collections.OrderedDict(b=2, a=1)),
    "Counter": (collections.Counter("ab"), collections.Counter("ba")),
    "proxy": (types.MappingProxyType({"a": 1, "b": 2}), types.MappingProxyType({"b": 2, "a": 1})),
    "keys": ({"a": 1, "b": 2}.keys(), {"b": 2, "a": 1}.keys()),
    "attributes": (having(Own(), a=1, b=2), having(Own(), b=2, a=1)),
    "attributes of a namespace": (types.SimpleNamespace(a=1, b=2), types.SimpleNamespace(b=2, a=1)),
    "attributes of a tensor": (having(torch.ones(1), a=1, b=2), having(torch.ones(1), b=2, a=1)),
    "attributes of a function": (having(lambda: 0, a=1, b=2), having(lambda: 0, b=2, a=1)),
    "buffers": (network("a", "b"), network("b", "a")),
    "keywords": (functools.partial(max, a=1, b=2), functools.partial(max, b=2, a=1)),
}


@pytest.mark.parametrize(("one", "other"), ORDERED.values(), ids=ORDERED)
def test_the_order_of_insertion_is_observed(one, other):
    """The order of keys and attributes is observed, because a loop shows it."""
    assert differ(one, other) and not differ(one, one)


def test_the_order_of_a_set_is_not_observed():
    """The order in a set is not observed."""
    assert not differ({8, 0}, {0, 8})
    assert differ({8, 0}, {8, 1})


HELD = {
    "private attribute": (having(Own(), _a=1), having(Own(), _a=2)),
    "number of a class": (Number(1), Number(2)),
    "text of a class": (Word("a"), Word("b")),
    "fraction": (fractions.Fraction(1, 2), fractions.Fraction(1, 3)),
    "array": (array.array("i", [1]), array.array("i", [2])),
    "array of NumPy": (np.zeros(2), -np.zeros(2)),
    "bytearray": (bytearray(b"a"), bytearray(b"b")),
    "memoryview": (memoryview(b"a"), memoryview(b"b")),
    "values": ({1: 1}.values(), {1: 2}.values()),
    "rest of an iterator": (iter([1, 2]), iter([1, 3])),
    "arguments of a partial": (functools.partial(max, 1), functools.partial(max, 2)),
    "factory": (collections.defaultdict(list), collections.defaultdict(set)),
    "longest length": (collections.deque([1], 3), collections.deque([1], 4)),
    "method": (Own.one.__get__(Own()), Own.other.__get__(Own())),
    "object of a method": ([1].append, [2].append),
    "arguments of an exception": (ValueError(1), ValueError("1")),
    "type with parameters": (list[int], list[str]),
    "code": (lambda: 1, lambda: 2),
    "values of keys that print alike": (keyed(1, 2), keyed(3, 2)),
    "sparse": (torch.eye(2).to_sparse(), (2 * torch.eye(2)).to_sparse()),
}


@pytest.mark.parametrize(("one", "other"), HELD.values(), ids=HELD)
def test_what_an_object_holds_is_observed(one, other):
    """Private attributes, and values in C, are observed."""
    assert differ(one, other) and not differ(one, one)


def test_an_iterator_is_left_where_it_was():
    """An iterator is copied before it is observed."""
    rest = iter([1, 2])
    observe(rest)
    assert list(rest) == [1, 2]
