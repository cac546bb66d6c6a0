"""Objects that the traced code creates: of built-in classes, of exceptions, of the user's classes."""

from __future__ import annotations

import collections

from tests.support.answers import check

Pair = collections.namedtuple("Pair", "a b", defaults=[2])  # noqa: PYI024 - a class without annotations


class Plain:
    def __init__(self, n, *, scale=1):
        self.n = n * scale


class Made:
    def __new__(cls, n):
        made = super().__new__(cls)
        made.n = n
        return made


class Other:
    def __new__(cls):
        return 3

    def __init__(self):
        raise AssertionError("not called for an object of another class")


class Meta(type):
    def __call__(cls, *arguments):
        return ("called", super().__call__(*arguments).n)


class WithMeta(Plain, metaclass=Meta):
    pass


def test_objects_of_a_users_class():
    """``__new__`` and ``__init__`` run as in Python; ``__init__`` does not run for an object of another class."""
    check(
        "P(2, scale=3).n", "M(4).n", "type(M(4)) is M", "O()", "W(5)",
        P=Plain, M=Made, O=Other, W=WithMeta,
    )  # fmt: skip


def test_named_tuples():
    """Fields are given by position, by keyword or by default; other arguments raise errors with Python's text."""
    check(
        "P(1)",
        "P(1, 3).b",
        "P(b=1, a=0)",
        "P()",
        "P(1, 2, 3)",
        "P(1, c=2)",
        "P._make([1, 2])",
        "P(1)._replace(a=5)",
        P=Pair,
    )


def test_built_in_classes():
    """Built-in classes accept iterables and keywords, and raise Python's errors for other arguments."""
    check(
        "list('ab')", "tuple(range(3))", "dict(a=1, b=2)", "dict([(1, 2)])", "dict([1])", "set('aba') == {'a', 'b'}", "frozenset([1])", "complex(1, 2)", "int('7')", "int('x')", "float('1e3')", "bool([])", "str(12)", "object() is object()",
        "list(1)", "tuple(1, 2)",
    )  # fmt: skip


def test_exceptions():
    """Exceptions have their arguments, and a user's exception class has its own attributes."""

    class Coded(ValueError):
        code = 7

    check("ValueError(1, 2).args", "C(3).args, C.code", "KeyError('a')", "type(C(3)).__mro__[1] is ValueError", C=Coded)


def test_attributes_of_classes():
    """A class has its own attributes and those of its metaclass; a missing attribute raises Python's AttributeError."""
    check(
        "P.__name__",
        "W.__class__.__name__",
        "P.absent",
        "P.__init__.__name__",
        "P.__mro__[-1] is object",
        P=Plain,
        W=WithMeta,
    )
