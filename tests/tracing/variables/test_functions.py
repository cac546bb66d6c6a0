"""Functions of the traced program and of Python: their calls and their attributes."""

from __future__ import annotations

import inspect
import types

import pytest
import torch

import nbcompile
from nbcompile.tracing.variables import functions
from tests.support.answers import check
from tests.support.graphs import Graphs


def test_functions_have_their_attributes():
    """Functions that the program defines have names, defaults, docstrings and stored attributes."""
    check(
        "def f(a, b=2, *, c=3): 'Doc.'\nreturn f.__name__, f.__defaults__, f.__kwdefaults__, f.__doc__",
        "def f(): pass\nf.tag = 3\nreturn f.tag, hasattr(f, 'other')",
        "def f(): pass\nreturn f.other",
        "(lambda a: a).__qualname__",
        "def f(a=[]):\n  a.append(1)\n  return a\nf()\nreturn f()",
    )  # fmt: skip


def test_created_functions_keep_their_annotations():
    """A function that the traced code defines has its annotations behind the graph, as the traced code left them."""

    def unread(x):
        def inner(a: int, *, b: list[int]) -> torch.Tensor: ...

        return x + 1, inner

    def changed(x):
        def inner(a: int) -> float: ...

        inner.__annotations__["b"] = str
        return x + 1, inner

    def replaced(x):
        def inner(a: int) -> float: ...

        inner.__annotations__ = {"a": "str"}
        return x + 1, inner

    def read_by_the_library(x):
        def inner(a: int, *, b=2) -> float: ...

        return x + 1, str(inspect.signature(inner))

    x = torch.ones(2)
    for program in (unread, changed, replaced):
        expected, got = program(x)[1], nbcompile.compile(program, backend="eager")(x)[1]
        assert got.__annotations__ == expected.__annotations__, program
    expected = read_by_the_library(x)[1]
    assert nbcompile.compile(read_by_the_library, backend="eager")(x)[1] == expected


def test_cells_are_those_of_python():
    """A closure reads the latest value of a cell, and ``nonlocal`` writes to the cell."""
    check(
        "n = 1\ndef f(): return n\nn = 2\nreturn f()",
        "n = 1\ndef f():\n  nonlocal n\n  n += 1\n  return n\nreturn f(), f(), n",
        "fs = [lambda: i for i in range(3)]\nreturn [f() for f in fs]",
        "fs = [lambda i=i: i for i in range(3)]\nreturn [f() for f in fs]",
    )  # fmt: skip


class Owner:
    def method(self, n):
        return self, n

    @classmethod
    def of_class(cls, n):
        return cls.__name__, n

    @staticmethod
    def static(n):
        return n


def test_methods_are_bound():
    """A method is bound to an instance or a class, or is static; a bound method has its owner and its function."""
    check(
        "o.method(1)[0] is o", "o.of_class(1)", "O.of_class(2)", "O.static(3)", "o.method.__self__ is o",
        "o.method.__func__ is O.method", "O.method(o, 4)[1]", "o.method == o.method",
        o=Owner(), O=Owner,
    )  # fmt: skip


def test_documentation_is_the_first_constant():
    """A function with a docstring has it; one without has None, whatever constants it has."""

    def with_text():
        """Text."""

    def without():
        return "no text"

    assert functions.documentation(with_text.__code__) == "Text."
    assert functions.documentation(without.__code__) == without.__doc__
    assert isinstance(without, types.FunctionType)


class Adder:
    step = 2

    def add(self, x):
        """Add a step."""
        return x + self.step

    @classmethod
    def plus(cls, x):
        return x + cls.step


def test_bound_methods_have_the_attributes_of_their_own_class():
    """``__class__``, ``__call__`` and other members of the class of methods are not those of the function."""
    check(
        "a.add.__class__", "a.add.__class__ is type(a.add)", "a.add.__call__(x)", "A.plus.__call__(x)", "a.add.__doc__",
        "type(a.add.__call__).__name__", "type([].__len__).__name__", "type([].append).__name__",         "A.plus.__class__", "list(map(a.add.__call__, [x]))", "a.add.__func__ is A.add", "a.add.__name__",
        "m.forward.__call__(x)", "m.forward.__class__.__name__", "a.add.tag",
        "A.add.__call__(a, x)", "callable(a.add.__call__)", "type(a.add)(A.add, a)(x)", "a.add.__code__.co_name",
        a=Adder(), A=Adder, m=torch.nn.ReLU(),
    )  # fmt: skip


def test_a_bound_method_is_compared_and_hashed_as_itself():
    """``method.__eq__`` and ``method.__hash__`` are the method's, and not those of its function."""

    def f(x):
        y = x + 1
        return y, adder.add.__eq__(adder.add), adder.add.__eq__(other.add), adder.add.__hash__() == hash(adder.add)

    adder, other = Adder(), Adder()
    assert nbcompile.compile(f, backend="eager")(torch.ones(1))[1:] == (True, False, True)


class Scaled:
    """An object that the programs below create."""

    def __init__(self, value):
        self.value = value

    def times(self, factor):
        """Multiply by what the object holds at the call."""
        return self.value * factor

    @torch.compiler.disable
    def not_traced(self, factor):
        """Break the graph."""
        return self.value * factor


def _returned(x):
    scaled = Scaled(x + 1)
    return scaled.times, scaled, scaled.times


def _stored(x):
    scaled = Scaled(x + 1)
    scaled.callback = scaled.times
    scaled.value = scaled.value * 2
    return scaled.callback, scaled, scaled.callback


def _behind_a_break(x):
    scaled = Scaled(x + 1)
    method = scaled.times
    torch._dynamo.graph_break()
    return method, scaled, method


def _called_at_a_break(x):
    scaled = Scaled(x + 1)
    seen = scaled.not_traced(3)
    scaled.value = scaled.value + seen
    return scaled.times, scaled, scaled.times


@pytest.mark.parametrize(
    ("function", "graphs"), [(_returned, 1), (_stored, 1), (_behind_a_break, 1), (_called_at_a_break, 2)]
)
def test_a_method_of_a_created_object_outlives_the_graph(function, graphs):
    """It is bound to the object that eager mode would have; torch.compile runs the frame in eager mode."""
    backend = Graphs()
    method, scaled, again = nbcompile.compile(function, backend=backend)(torch.ones(2))
    expected, of, other = function(torch.ones(2))
    assert method.__self__ is scaled and method == again and (method is again) == (expected is other)
    assert torch.equal(method(5), expected(5)) and torch.equal(scaled.value, of.value)
    assert len(backend) == graphs
