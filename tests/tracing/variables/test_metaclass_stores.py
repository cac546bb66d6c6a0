"""``cls.name = value`` and ``del cls.name`` call the metaclass once, as in eager mode."""

from __future__ import annotations

import enum

import pytest
import torch

import nbcompile

X = torch.ones(2)


class Colour(enum.Enum):
    """An enumeration, whose members cannot be changed."""

    RED = 1


class Noting(type):
    """A metaclass that records stores, and doubles numbers."""

    log: list[tuple[str, str]] = []  # noqa: RUF012  # shared by all classes

    def __setattr__(cls, name, value):
        Noting.log.append(("set", name))
        super().__setattr__(name, value * 2 if isinstance(value, int) else value)

    def __delattr__(cls, name):
        Noting.log.append(("del", name))
        type.__delattr__(cls, name)

    @property
    def size(cls):
        return 3

    @size.setter
    def size(cls, value):
        Noting.log.append(("size", str(value)))


class Noted(metaclass=Noting):
    """A class whose metaclass records stores."""

    rate = 1


class Plain:
    """A class whose metaclass is ``type``."""


def tried(act, *arguments):
    """The result of a function, or its error."""
    try:
        return act(*arguments)
    except (AttributeError, TypeError) as error:
        return type(error).__name__, str(error)


def members(x):
    """Stores to members of an enumeration, and to another name."""
    first = [tried(setattr, Colour, "RED", 5), tried(delattr, Colour, "RED"), tried(delattr, Colour, "missing")]
    Colour.beside = 5
    seen = Colour.beside
    del Colour.beside
    return x + 1, first, seen, hasattr(Colour, "beside")


def noted(x):
    """Stores that call a metaclass in Python and one of its properties."""
    Noted.rate = 5
    Noted.more = 7
    Noted.size = 4
    seen = Noted.rate, Noted.more, Noted.size
    del Noted.more
    return x + 1, seen, hasattr(Noted, "more")


def of_type(x):
    """Stores that ``type`` rejects or treats specially."""
    rejected = [tried(setattr, int, "b", 5), tried(delattr, int, "real"), tried(setattr, Plain, "__name__", 3)]
    rejected += [tried(setattr, Plain, "__bases__", ()), tried(setattr, Plain, "__mro__", ())]
    Plain.__doc__ = "Another text."
    Plain.__module__ = "elsewhere"
    return x + 1, rejected, Plain.__doc__, Plain.__module__


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("program", [members, noted, of_type])
@pytest.mark.parametrize("again", [False, True])
def test_the_metaclass_decides(program, again, monkeypatch):
    """Results, the class afterwards and the recorded stores are eager mode's, at the first and at a later call."""
    for name in ("__doc__", "__module__"):
        monkeypatch.setattr(Plain, name, getattr(Plain, name))

    def left():
        kept = Noted.rate, hasattr(Noted, "more"), hasattr(Colour, "beside"), list(Noting.log)
        Noting.log.clear()
        type.__setattr__(Noted, "rate", 1)
        return kept

    expected = program(X)[1:], left()
    compiled = nbcompile.compile(program, backend="eager")
    if again:
        compiled(X)
        left()
    assert (compiled(X)[1:], left()) == expected


@pytest.mark.usefixtures("nothing_compiled")
def test_a_metaclass_is_traced_whole():
    """Stores are traced in one graph, for an enumeration and for a user's metaclass."""

    def program(x):
        Noted.rate = 5
        return x + Noted.rate, tried(setattr, Colour, "RED", 5)

    got, rejected = nbcompile.compile(program, fullgraph=True, backend="eager")(X)
    assert torch.equal(got, X + 10) and rejected == tried(setattr, Colour, "RED", 5)
    assert Noted.rate == 10
    type.__setattr__(Noted, "rate", 1)
    Noting.log.clear()


class Base:
    k = 3


def deleted_by_type(cls):
    type.__delattr__(cls, "k")
    return cls.k


def deleted_and_asked(cls):
    del cls.k
    return hasattr(cls, "k"), getattr(cls, "k", None), getattr(cls(), "k", None)


def named_by_a_number(cls):
    try:
        type.__setattr__(cls, 5, 1)
    except TypeError as error:
        return str(error)
    return None


def name_of_none(cls):
    try:
        type.__delattr__(cls, None)
    except TypeError as error:
        return str(error)
    return None


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("base", [object, Base])
@pytest.mark.parametrize("program", [deleted_by_type, deleted_and_asked, named_by_a_number, name_of_none])
def test_a_name_that_is_deleted_is_nowhere(program, base):
    """The attribute of the class is missing after the deletion, and that of a base is found; names must be strings."""

    def answer(call):
        cls = type("Fresh", (base,), {"k": 1})
        try:
            return call(cls), "k" in vars(cls)
        except AttributeError as error:
            return str(error), "k" in vars(cls)

    compiled = nbcompile.compile(lambda x, cls: (x + 1, program(cls)), backend="eager")
    assert answer(lambda cls: compiled(X, cls)[1]) == answer(program)
