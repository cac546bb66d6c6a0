"""``isinstance`` of objects that compute their ``__class__``: traced, with eager's answers, errors and questions."""

from __future__ import annotations

import collections.abc
import unittest.mock
import weakref

import pytest
import torch

import nbcompile
from tests.support.answers import check
from tests.support.oracle import one_graph


class Plain:
    """A class that the others claim to be."""

    def __hash__(self):
        return 1


class Claiming:
    """An object that says it is a Plain, and keeps how often it was asked."""

    def __init__(self):
        self.asked = []

    @property
    def __class__(self):
        self.asked.append("class")
        return Plain


class Watching:
    """An object that keeps each name that was asked of it."""

    def __init__(self):
        object.__setattr__(self, "asked", [])

    def __getattribute__(self, name):
        object.__getattribute__(self, "asked").append(name)
        return object.__getattribute__(self, name)


class Refusing:
    """An object whose ``__class__`` raises."""

    def __init__(self, error):
        self.error = error

    @property
    def __class__(self):
        raise self.error("no class")


class Bases:
    """An object that has ``__bases__``, and counts as a class."""

    def __init__(self, bases=()):
        self.bases = bases

    @property
    def __bases__(self):
        if self.bases is None:
            raise RuntimeError("no bases")
        return self.bases


class OfBases:
    """An instance of one."""

    def __init__(self, cls):
        self.cls = cls

    @property
    def __class__(self):
        return self.cls


CLASSES = (int, Plain, (int, Plain), int | Plain, object, collections.abc.Hashable, collections.abc.Sized, torch.Tensor)


def answers(x, value):
    """Answers that are given of a value."""
    return x + 1, [isinstance(value, each) for each in CLASSES], value.__class__


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("make", [Claiming, Watching, lambda: unittest.mock.Mock(spec=Plain), Plain])
def test_a_class_of_its_own(make):
    """The answers, and how often the object was asked, are eager's, when it is compiled and afterwards."""
    compiled = nbcompile.compile(answers, backend="eager")
    for _ in range(2):
        eager, traced = make(), make()
        assert compiled(torch.ones(2), traced)[1:] == answers(torch.ones(2), eager)[1:]
        assert object.__getattribute__(traced, "__dict__").get("asked") == vars(eager).get("asked") or make is Watching
        if make is Watching:
            asked = [object.__getattribute__(each, "asked") for each in (traced, eager)]
            assert asked[0] == [each for each in asked[1] if each != "__dict__"]


def test_it_is_traced_whole():
    """The property is part of the graph's program."""
    x, claiming = torch.ones(2), Claiming()
    assert one_graph(answers, x, claiming)[1] == answers(x, Claiming())[1]


def test_errors_of_the_property():
    """``type`` hides an AttributeError and no other one; an abstract base class hides none."""
    check(
        "isinstance(attribute, int)", "isinstance(attribute, abc.Sized)", "isinstance(attribute, Refusing)",
        "isinstance(key, int)", "isinstance(key, (Refusing, int))", "isinstance(key, (int, Refusing))", "key.__class__",
        attribute=Refusing(AttributeError), key=Refusing(KeyError), Refusing=Refusing, abc=collections.abc,
    )  # fmt: skip


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("ended", [False, True])
def test_a_weak_proxy(ended):
    """It answers as its object, and raises ReferenceError once that has ended, at the same places."""
    plain = Plain()
    proxy = weakref.proxy(plain)
    if ended:
        del plain

    def program(x, value):
        said = []
        for ask in (lambda: isinstance(value, Plain), lambda: value.__class__, lambda: str(value)[:3] and 1):
            try:
                said.append(ask())
            except ReferenceError as error:
                said.append(str(error))
        return x + 1, said

    x = torch.ones(2)
    assert nbcompile.compile(program, backend="eager")(x, proxy)[1] == program(x, proxy)[1]


@pytest.mark.usefixtures("nothing_compiled")
def test_objects_with_bases():
    """``isinstance`` and ``issubclass`` of what is no class, and the errors of its ``__bases__``."""
    above = Bases()
    below = Bases((above,))

    def program(x):
        said = []
        for value, cls in ((OfBases(below), above), (OfBases(above), below), (OfBases(above), int), (1, Bases(None))):
            try:
                said.append(isinstance(value, cls))
            except RuntimeError as error:
                said.append(str(error))
        return x + 1, said, issubclass(below, above), issubclass(above, below)

    x = torch.ones(2)
    assert nbcompile.compile(program, backend="eager")(x)[1:] == program(x)[1:]


@pytest.mark.usefixtures("nothing_compiled")
def test_the_compiler_asks_nothing():
    """Of an object that only goes through a frame with a graph break, through a list, a dict and an attribute."""

    def program(x, value, items):
        y = x + 1
        print(end="")
        return y, value, items[0], {1: value}

    value = Watching()
    for backend in ("eager", "inductor"):
        nbcompile.compile(program, backend=backend)(torch.ones(2), value, [value])
    assert object.__getattribute__(value, "asked") == []
