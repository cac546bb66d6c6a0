"""``OrderedDict`` stores and reads with the methods of a subclass, as its C code does; ``dict`` does not."""

from __future__ import annotations

import collections
from collections import OrderedDict

import pytest
import torch

import nbcompile
from tests.support.oracle import require_same_answer


class Doubling(OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value * 2)


class Last(OrderedDict):
    def __setitem__(self, key, value):
        if key in self:
            self.move_to_end(key)
        super().__setitem__(key, value)


class Hundred(OrderedDict):
    def __getitem__(self, key):
        return super().__getitem__(key) + 100


class Everything(OrderedDict):
    def __contains__(self, key):
        return True


class OtherKeys(OrderedDict):
    def keys(self):
        return ["q"]


class OtherItems(OrderedDict):
    def items(self):
        return [("q", 5)]


class Noted(OrderedDict):
    def __init__(self, *given):
        self.log = []
        super().__init__(*given)

    def __setitem__(self, key, value):
        self.log.append(key)
        super().__setitem__(key, value)


class Plain(dict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value * 2)


class Factory(collections.defaultdict):
    """A subclass of defaultdict, whose creation breaks the graph."""

    def __setitem__(self, key, value):
        super().__setitem__(key, value * 2)


CLASSES = (Doubling, Last, Hundred, Everything, OtherKeys, OtherItems, Noted, Plain)


def inside(d):
    """The items of a dict without methods of its class, and its attributes."""
    base = OrderedDict if isinstance(d, OrderedDict) else dict
    return type(d), list(base.items(d)), vars(d)


def with_update(cls):
    d = cls()
    d.update({"a": 1})
    d.update([("b", 2), ("a", 3)], c=4)
    d.update(cls(e=5) if cls is not Noted else cls({"e": 5}))
    return inside(d)


def with_default(cls):
    d = cls()
    return d.setdefault("a", 3), d.setdefault("a", 4), inside(d)


def with_union(cls):
    d = cls({"a": 1})
    d |= {"b": 2}
    return inside(d), inside(d | {"c": 3})


PROGRAMS = {
    "made": lambda cls: inside(cls({"a": 1, "b": 2})),
    "made of pairs": lambda cls: inside(cls([("a", 1), ("b", 2)])),
    "updated": with_update,
    "a default": with_default,
    "a copy": lambda cls: inside(cls({"a": 1, "b": 2}).copy()),
    "a union": with_union,
    "a union with the other on the right": lambda cls: inside({"b": 2} | cls({"a": 1})),
    "taken": lambda cls: (cls({"a": 1, "b": 2}).pop("a"), cls({"a": 1}).popitem(), cls({"a": 1}).pop("z", 5)),
    "two arguments": lambda cls: cls({}, {}),
    "two to update": lambda cls: cls().update({}, {}),
    "one value": lambda cls: cls([("a",)]),
    "three values": lambda cls: cls([("a", 1, 2)]),
    "none": lambda cls: cls([()]),
}


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_new_dict(name, cls):
    """The items, the object's attributes and errors are eager mode's."""
    nbcompile.reset()
    program = PROGRAMS[name]
    require_same_answer(lambda: program(cls))


@pytest.mark.parametrize("cls", CLASSES)
def test_a_dict_from_outside(cls):
    """Traced stores are replayed without the class's methods, so they happen only once."""

    def changed(x, d):
        d["a"] = x
        d.update(b=x * 2)
        d.pop("z")
        d.setdefault("c", x)
        return x + 1

    own, wanted, x = cls({"a": 1, "z": 3}), cls({"a": 1, "z": 3}), torch.ones(2)
    raised = None
    try:
        changed(x, wanted)
    except KeyError as error:
        raised = error
    compiled = nbcompile.compile(changed, backend="eager")
    if raised is not None:
        with pytest.raises(KeyError):
            compiled(x, own)
    else:
        compiled(x, own)
    assert repr(inside(own)) == repr(inside(wanted))


def test_a_subclass_of_a_dict_with_a_factory():
    """Python creates the dict after a graph break, with its factory."""

    def made(x):
        d = Factory(int, {"a": 1})
        d["b"] += 1
        return d, x + 1

    d, y = nbcompile.compile(made, backend="eager")(torch.ones(2))
    assert (type(d), dict(d), d.default_factory) == (Factory, {"a": 1, "b": 2}, int)
    assert torch.equal(y, torch.full((2,), 2.0))
