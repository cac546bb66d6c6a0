"""New objects of users' classes."""

from __future__ import annotations

import abc
import collections.abc
import typing
from typing import Any

import pytest
import torch

import nbcompile
from tests.support.answers import check


class Point(list):
    """A list with an attribute."""

    def __new__(cls, *items):
        made = super().__new__(cls)
        made.count = len(items)
        return made

    def __init__(self, *items):
        super().__init__(items)


def test_new_and_init_of_a_list_run():
    """The returned object has the class, the items and the attribute of eager mode's."""

    def program(x):
        return Point(x + 1, x + 2)

    x = torch.randn(3)
    found, expected = nbcompile.compile(program, backend="eager", fullgraph=True)(x), program(x)
    assert type(found) is Point
    assert found.count == expected.count == 2
    assert all(left.equal(right) for left, right in zip(found, expected, strict=True))


class Base:
    """A class whose ``__new__`` creates objects of the subclass below."""

    def __new__(cls, *_: Any) -> Any:
        return object.__new__(Derived if cls is Base else cls)

    def __init__(self, value: int) -> None:
        self.value: Any = value


class Derived(Base):
    """A subclass that defines ``__init__``."""

    def __init__(self, value: int) -> None:
        self.value = "derived", value


class MyList(list):  # type: ignore[type-arg]
    """A list."""


class MakesList:
    """A class whose ``__new__`` returns a list, whose ``__init__`` is not called."""

    def __new__(cls, *_: Any) -> Any:
        return MyList([1, 2])


class Asked(type):
    """A metaclass whose ``__subclasscheck__`` no instantiation may call."""

    def __subclasscheck__(cls, other: Any) -> bool:
        raise ValueError("asked")


class OfAsked(metaclass=Asked):
    """A class whose metaclass raises an error for subclass checks."""

    def __init__(self, value: int) -> None:
        self.value = value

    def own(self) -> str:
        return super().__thisclass__.__name__


class Shape(typing.Protocol):
    """A protocol that allows neither instance checks nor instances."""

    def area(self) -> float: ...


def test_the_class_of_what_new_returned_says_which_init_runs() -> None:
    """The class of the object that ``__new__`` returns decides, without a call of ``__subclasscheck__``."""
    check(
        "Base(3).value", "Derived(3).value", "list(MakesList())", "list(MakesList([5]))", "OfAsked(3).value",
        "OfAsked(3).own()", "Shape()", Base=Base, Derived=Derived, MakesList=MakesList, OfAsked=OfAsked, Shape=Shape,
    )  # fmt: skip


class Abstract(abc.ABC):
    """A class with two abstract methods."""

    @abc.abstractmethod
    def first(self): ...

    @property
    @abc.abstractmethod
    def second(self): ...


class Complete(Abstract):
    """A class that has them."""

    first = second = 1


class AbstractByNew(Abstract):
    """An abstract class with a constructor in Python."""

    def __new__(cls):
        return super().__new__(cls)


class AbstractModule(torch.nn.Module, abc.ABC):
    """An abstract module."""

    @abc.abstractmethod
    def first(self): ...


class AbstractList(list, abc.ABC):
    """A list: ``list.__new__`` ignores that a method is abstract."""

    @abc.abstractmethod
    def first(self): ...


class Shaped(typing.Protocol):
    """A protocol."""

    def first(self): ...


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize(
    "cls", [Abstract, Complete, AbstractByNew, AbstractModule, AbstractList, Shaped, collections.abc.Sequence]
)
@pytest.mark.parametrize("by_new", [False, True])
def test_abstract_classes(cls, by_new):
    """An object of an abstract class is rejected with Python's TypeError, unless a built-in base class creates it."""

    def program(x, cls):
        try:
            cls.__new__(cls) if by_new else cls()
        except TypeError as error:
            return x + 1, str(error)
        return x * 2

    x = torch.ones(2)
    fullgraph = not (by_new and cls in (AbstractByNew, AbstractList))  # neither function is traced by itself
    assert str(nbcompile.compile(program, backend="eager", fullgraph=fullgraph)(x, cls)) == str(program(x, cls))
