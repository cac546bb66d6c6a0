"""Assignment to ``__class__``: later lookups use the new class."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import nbcompile
from tests.support.graphs import Graphs

pytestmark = pytest.mark.usefixtures("nothing_compiled")


class Square:
    side = 2.0
    kind = "square"

    def area(self) -> float:
        return self.side**2


class Circle:
    side = 3.0
    kind = "circle"

    def area(self) -> float:
        return self.side * 3

    def __len__(self) -> int:
        return 4

    def turned(self) -> Circle:
        return self


class Slotted:
    __slots__ = ("side",)


class Storing:
    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)


def described(shape: Any) -> tuple[Any, ...]:
    """The answers that depend on the class."""
    name = type(shape).__name__
    return name, shape.__class__.__name__, shape.kind, isinstance(shape, Circle), getattr(shape, "turned", None) is None


def changed(x: torch.Tensor, shape: Any, cls: Any) -> Any:
    shape.side = 5.0
    try:
        shape.__class__ = cls
    except TypeError as error:
        return x + 1, str(error)
    shape.later = 6.0
    return x * shape.area(), described(shape), vars(shape)


def made(x: torch.Tensor, cls: Any) -> Any:
    shape = Square()
    result, *answers = changed(x, shape, cls)
    return result, answers, type(shape).__name__, bool(shape)


@pytest.mark.parametrize("cls", [Circle, Square, Slotted, int, 3, None])
@pytest.mark.parametrize("setting", ["statement", "object.__setattr__"])
def test_from_outside(cls: Any, setting: str) -> None:
    """Methods, names and type checks are those of the new class, in one graph, also after the call.
    An invalid class raises Python's error.
    """

    def by_object(x: torch.Tensor, shape: Any, cls: Any) -> Any:
        object.__setattr__(shape, "__class__", cls)
        return x * shape.area(), described(shape)

    f = changed if setting == "statement" or not isinstance(cls, type) or cls in (Slotted, int) else by_object
    graphs = Graphs()
    one, other = Square(), Square()
    expected, actual = f(torch.ones(3), one, cls), nbcompile.compile(f, backend=graphs)(torch.ones(3), other, cls)
    assert torch.equal(expected[0], actual[0])
    assert expected[1:] == actual[1:]
    assert (type(one), vars(one)) == (type(other), vars(other))
    assert len(graphs) == 1


@pytest.mark.parametrize("cls", [Circle, Square, Slotted, int, 3])
def test_made_inside(cls: Any) -> None:
    """An object that the traced code created has the new class, too."""
    graphs = Graphs()
    expected, actual = made(torch.ones(3), cls), nbcompile.compile(made, backend=graphs)(torch.ones(3), cls)
    assert torch.equal(expected[0], actual[0])
    assert expected[1:] == actual[1:]
    assert len(graphs) == 1


def test_later_calls() -> None:
    """A replaced method of the new class is used, and an object of another class causes no error."""

    class Other(Square):
        def area(self) -> float:
            return 7.0

    def f(x: torch.Tensor, shape: Any) -> Any:
        shape.__class__ = Other
        return x * shape.area()

    compiled = nbcompile.compile(f, backend="eager")
    x = torch.ones(2)
    assert compiled(x, Square()).tolist() == [7.0, 7.0]
    Other.area = lambda self: 8.0  # type: ignore[method-assign]
    assert compiled(x, Square()).tolist() == [8.0, 8.0]
    circle = Circle()
    assert compiled(x, circle).tolist() == [8.0, 8.0]
    assert type(circle) is Other


def test_back_and_over_a_break() -> None:
    """The last of two assignments is effective; after a graph break the object has the class of the first."""

    def f(x: torch.Tensor, shape: Any) -> Any:
        shape.__class__ = Circle
        x = x * shape.area()
        nbcompile.graph_break()
        x = x + len(shape)
        shape.__class__ = Square
        return x * shape.area()

    shape = Square()
    assert nbcompile.compile(f, backend="eager")(torch.ones(2), shape).tolist() == f(torch.ones(2), Square()).tolist()
    assert type(shape) is Square


def test_modules() -> None:
    """A module has the ``forward`` and the attributes of its new class."""

    class Doubled(torch.nn.Linear):
        factor = 2

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * self.factor

    def f(x: torch.Tensor, m: torch.nn.Module) -> Any:
        had = hasattr(m, "factor")
        m.__class__ = Doubled
        return m(x), had, hasattr(m, "factor"), hasattr(m, "nothing")

    module, same = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    same.load_state_dict(module.state_dict())
    expected, actual = f(torch.ones(3), same), nbcompile.compile(f, backend="eager")(torch.ones(3), module)
    assert torch.equal(expected[0], actual[0])
    assert expected[1:] == actual[1:] == (False, True, False)
    assert type(module) is Doubled


def test_stores_that_run_code() -> None:
    """A class with its own ``__setattr__`` breaks the graph, and the object has the right attributes afterwards."""

    def f(x: torch.Tensor, shape: Any) -> Any:
        shape.__class__ = Storing
        shape.a = 3
        return x * shape.a

    shape = Square()
    assert nbcompile.compile(f, backend="eager")(torch.ones(2), shape).tolist() == [3.0, 3.0]
    assert type(shape) is Storing
