"""Functions of the traced program and of Python: their calls and their attributes."""

from __future__ import annotations

import types

from nbcompile.tracing.variables import functions
from tests.support.answers import check


def test_functions_have_their_attributes():
    """Functions that the program defines have names, defaults, docstrings and stored attributes."""
    check(
        "def f(a, b=2, *, c=3): 'Doc.'\nreturn f.__name__, f.__defaults__, f.__kwdefaults__, f.__doc__",
        "def f(): pass\nf.tag = 3\nreturn f.tag, hasattr(f, 'other')",
        "def f(): pass\nreturn f.other",
        "(lambda a: a).__qualname__",
        "def f(a=[]):\n  a.append(1)\n  return a\nf()\nreturn f()",
    )  # fmt: skip


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
