"""``isinstance`` of objects that compute ``__class__`` is traced, with eager mode's answers, errors and calls."""

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
    """The class that ``__class__`` of other objects returns."""

    def __hash__(self):
        return 1


class Claiming:
    """An object whose ``__class__`` is Plain, and which counts the reads."""

    def __init__(self):
        self.asked = []

    @property
    def __class__(self):
        self.asked.append("class")
        return Plain


class Watching:
    """An object that records each attribute that is read."""

    def __init__(self):
        object.__setattr__(self, "asked", [])

    def __getattribute__(self, name):
        object.__getattribute__(self, "asked").append(name)
        return object.__getattribute__(self, name)


class Rejecting:
    """An object whose ``__class__`` raises an error."""

    def __init__(self, error):
        self.error = error

    @property
    def __class__(self):
        raise self.error("no class")


class Bases:
    """An object with ``__bases__``, which Python treats as a class."""

    def __init__(self, bases=()):
        self.bases = bases

    @property
    def __bases__(self):
        if self.bases is None:
            raise RuntimeError("no bases")
        return self.bases


class OfBases:
    """An object whose ``__class__`` is a given object."""

    def __init__(self, cls):
        self.cls = cls

    @property
    def __class__(self):
        return self.cls


CLASSES = (int, Plain, (int, Plain), int | Plain, object, collections.abc.Hashable, collections.abc.Sized, torch.Tensor)


def answers(x, value):
    """Instance checks of a value, and its class."""
    return x + 1, [isinstance(value, each) for each in CLASSES], value.__class__


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("make", [Claiming, Watching, lambda: unittest.mock.Mock(spec=Plain), Plain])
def test_a_class_of_its_own(make):
    """Answers and the number of reads are eager mode's, in the first and in a later call."""
    compiled = nbcompile.compile(answers, backend="eager")
    for _ in range(2):
        eager, traced = make(), make()
        assert compiled(torch.ones(2), traced)[1:] == answers(torch.ones(2), eager)[1:]
        assert object.__getattribute__(traced, "__dict__").get("asked") == vars(eager).get("asked") or make is Watching
        if make is Watching:
            asked = [object.__getattribute__(each, "asked") for each in (traced, eager)]
            assert asked[0] == [each for each in asked[1] if each != "__dict__"]


def test_it_is_traced_whole():
    """The property is traced, in one graph."""
    x, claiming = torch.ones(2), Claiming()
    assert one_graph(answers, x, claiming)[1] == answers(x, Claiming())[1]


def test_errors_of_the_property():
    """``type`` hides only an AttributeError, and an abstract base class hides none."""
    check(
        "isinstance(attribute, int)", "isinstance(attribute, abc.Sized)", "isinstance(attribute, Rejecting)",
        "isinstance(key, int)", "isinstance(key, (Rejecting, int))", "isinstance(key, (int, Rejecting))", "key.__class__",
        attribute=Rejecting(AttributeError), key=Rejecting(KeyError), Rejecting=Rejecting, abc=collections.abc,
    )  # fmt: skip


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("ended", [False, True])
def test_a_weak_proxy(ended):
    """A weak proxy gives the answers of its object, and raises ReferenceError after that is freed."""
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
    """``isinstance`` and ``issubclass`` of objects that are not classes, and errors of ``__bases__``."""
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
    """The compiler reads no attribute of an object that is only passed on, directly and in containers."""

    def program(x, value, items):
        y = x + 1
        print(end="")
        return y, value, items[0], {1: value}

    value = Watching()
    for backend in ("eager", "inductor"):
        nbcompile.compile(program, backend=backend)(torch.ones(2), value, [value])
    assert object.__getattribute__(value, "asked") == []
