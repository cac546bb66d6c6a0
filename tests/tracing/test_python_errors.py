"""Errors of Python are raised inside a compiled function, which may catch them, in one graph."""

from __future__ import annotations

import types
from collections.abc import Callable

import pytest
import torch

import nbcompile


class Plain:
    """A class without special methods."""


def _delete(owner, key):
    del owner[key]


def _store(owner, key):
    owner[key] = 0


def _unpack(value):
    first, second = value
    return first, second


class Slotted:
    """A class with one slot."""

    __slots__ = ("kept",)


class Fixed:
    """A class with a class attribute and no slots."""

    __slots__ = ()
    limit = 3

    def method(self, **keywords):
        return keywords


def _none(*arguments, **keywords):
    return None


def _add_in_place(left, right):
    left += right


def _power_in_place(left, right):
    left **= right


def _store_slice(value):
    items = [1, 2, 3]
    items[::2] = value


REJECTED: dict[str, Callable[[torch.Tensor], object]] = {
    "items of a window on a dict are not stored": lambda x: _store(types.MappingProxyType({"k": 1}), "k"),
    "items of a window on a dict are not deleted": lambda x: _delete(types.MappingProxyType({"k": 1}), "k"),
    "items of a tuple are not stored": lambda x: _store((x, 2), 0),
    "items of a tuple are not deleted": lambda x: _delete((x, 2), 0),
    "items of a text are not stored": lambda x: _store("abc", 0),
    "items of a range are not stored": lambda x: _store(range(3), 0),
    "items of a set are not deleted": lambda x: _delete({1}, 0),
    "items of an object are not stored": lambda x: _store(Plain(), 0),
    "items of an object are not deleted": lambda x: _delete(Plain(), 0),
    "an object is not indexed": lambda x: Plain()[0],
    "an object has no length": lambda x: len(Plain()),
    "an object contains nothing": lambda x: 3 in Plain(),
    "an object is not called": lambda x: Plain()(),
    "an object is no iterator": lambda x: next(Plain()),
    "an object is not iterated over": lambda x: [*Plain()],
    "a number is not indexed": lambda x: x.dim()[0],
    "a number has no length": lambda x: len(x.dim()),
    "a number contains nothing": lambda x: 1 in x.dim(),
    "a number is not unpacked": lambda x: _unpack(x.dim()),
    "a number is not spread": lambda x: [*x.dim()],
    "a function is not indexed": lambda x: _delete[0],
    "a function contains nothing": lambda x: 3 in _delete,
    "a function has no length": lambda x: len(_delete),
    "a view of keys is not indexed": lambda x: {}.keys()[0],
    "zip of a number": lambda x: zip([1], 3),
    "enumerate of a number": lambda x: enumerate(3),
    "map over a number": lambda x: map(str, 3),
    "filter of a number": lambda x: filter(None, 3),
    "isinstance of no class": lambda x: isinstance(x, 3),
    "an attribute without a name": lambda x: getattr(x, 3),
    "whether there is an attribute without a name": lambda x: hasattr(x, 3),
    "too few to unpack": lambda x: _unpack((1,)),
    "the greatest of nothing": lambda x: max([]),
    "a key that is not there": lambda x: {1: 2}[3],
    "an attribute that is no slot is not set": lambda x: setattr(Slotted(), "other", 1),
    "an attribute that is no slot is not deleted": lambda x: delattr(Slotted(), "other"),
    "a slot that is not set is not deleted": lambda x: delattr(Slotted(), "kept"),
    "an attribute of the class hides no slot": lambda x: setattr(Fixed(), "limit", 1),
    "a plain object has no attributes": lambda x: setattr(object(), "a", 1),
    "a class without a constructor takes nothing": lambda x: Plain(1),
    "a class without a constructor takes no keywords": lambda x: Slotted(kept=1),
    "object takes nothing": lambda x: object(1),
    "arguments of a call are iterable": lambda x: _none(*3),
    "keywords of a call are a mapping": lambda x: _none(**3),
    "a keyword is given once": lambda x, more={"a": 2}: _none(**{"a": 1}, **more),
    "a method's keyword is given once": lambda x, more={"a": 2}: Fixed().method(**{"a": 1}, **more),
    "the greatest of a number": lambda x: max(3),
    "an index of a tuple is a number": lambda x, name="a": (1,)[name],
    "an index of a list is a number": lambda x, number=1.0: [x][number],
    "bounds of a slice are numbers": lambda x: [1]["a":],
    "a list is repeated a whole number of times": lambda x: [x] * 1.5,
    "a slice with steps keeps its length": lambda x: _store_slice([1]),
    "an object is not negated": lambda x: -Plain(),
    "an object is not added to": lambda x: _add_in_place(Plain(), 1),
    "an object has no power": lambda x: Plain() ** 2,
    "an object is not raised in place": lambda x: _power_in_place(Plain(), 2),
    "a number contains no object": lambda x: Plain() in 3,
    "a number is no iterator": lambda x: next(3),
    "a list has no format": lambda x: f"{[x, 1]:>9}",
    "an object has no format": lambda x: format(Plain(), "d"),
    "strict zip of lists that differ": lambda x: [*zip([1], [1, 2], strict=True)],
}


@pytest.mark.parametrize("name", REJECTED)
def test_what_python_rejects(name: str) -> None:
    """The class and the text of the exception are Python's, and the function is one graph."""
    rejected = REJECTED[name]

    def f(x):
        y = x + 1
        try:
            rejected(x)
        except Exception as error:
            return y * 2, type(error), str(error)
        return y

    nbcompile.reset()
    result = nbcompile.compile(f, backend="eager", fullgraph=True)(torch.ones(2))
    expected = f(torch.ones(2))
    assert len(expected) == 3
    assert torch.equal(result[0], expected[0]) and result[1:] == expected[1:]
