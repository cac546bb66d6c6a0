"""Functions of the traced program and of Python: what is called, and what they have."""

from __future__ import annotations

import types

from nbcompile.tracing.variables import functions
from tests.support.answers import check


def test_functions_have_their_attributes():
    """Names, defaults, documentation and what the program stores on them, of functions that it defines."""
    check(
        "def f(a, b=2, *, c=3): 'Doc.'\nreturn f.__name__, f.__defaults__, f.__kwdefaults__, f.__doc__",
        "def f(): pass\nf.tag = 3\nreturn f.tag, hasattr(f, 'other')",
        "def f(): pass\nreturn f.other",
        "(lambda a: a).__qualname__",
        "def f(a=[]):\n  a.append(1)\n  return a\nf()\nreturn f()",
    )  # fmt: skip


def test_cells_are_those_of_python():
    """What a closure reads is what the enclosing function has stored last; ``nonlocal`` stores there."""
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
    """By an instance, a class, or not at all; a bound method has its owner and its function."""
    check(
        "o.method(1)[0] is o", "o.of_class(1)", "O.of_class(2)", "O.static(3)", "o.method.__self__ is o",
        "o.method.__func__ is O.method", "O.method(o, 4)[1]", "o.method == o.method",
        o=Owner(), O=Owner,
    )  # fmt: skip


def test_documentation_is_the_first_constant():
    """Of a function with a docstring; a function without one has none, whatever constants it has."""

    def with_text():
        """Text."""

    def without():
        return "no text"

    assert functions.documentation(with_text.__code__) == "Text."
    assert functions.documentation(without.__code__) == without.__doc__
    assert isinstance(without, types.FunctionType)
