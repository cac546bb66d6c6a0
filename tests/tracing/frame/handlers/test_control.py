"""Jumps, handlers of exceptions and patterns."""

from __future__ import annotations

import numbers

from tests.support.answers import check


class Claiming(type):
    def __subclasscheck__(cls, other):
        return True

    def __instancecheck__(cls, other):
        return True


class Claimed(Exception, metaclass=Claiming):
    pass


class Own(KeyError):
    pass


NAMES = {"Claimed": Claimed, "Own": Own, "KINDS": (TypeError, KeyError)}


def test_a_handler_is_found_by_the_order_of_bases():
    """A clause catches by a class, a tuple of classes or a base class; ``__subclasscheck__`` is not called."""
    raising = "try:\n    raise {}\nexcept {} as error:\n    return 'caught', type(error)\n"
    check(
        raising.format("Own(1)", "KeyError"), raising.format("Own", "(ValueError, LookupError)"), raising.format("Own", "KINDS"),
        raising.format("KeyError(1)", "Own"), raising.format("KeyError(1)", "Claimed"), raising.format("Claimed", "KeyError"),
        raising.format("KeyError", "()"), **NAMES,
    )  # fmt: skip


def test_what_cannot_be_caught():
    """A clause with a value that is not an exception class raises a TypeError, but only if an exception is raised."""
    trying = "try:\n    {}\nexcept {}:\n    return 1\nreturn 2"
    check(
        *(trying.format(body, kind) for body in ("raise ValueError(3)", "pass") for kind in ("5", "int", "(KeyError, 5)", "(KINDS, Own)")),
        **NAMES,
    )  # fmt: skip


def test_the_way_out_of_a_block():
    """``else`` runs without an exception, ``finally`` always runs; a return in ``finally`` replaces the exception."""
    check(
        "try:\n    x = 1\nexcept ValueError:\n    x = 2\nelse:\n    x = 3\nfinally:\n    y = 4\nreturn x, y",
        "try:\n    raise KeyError(1)\nfinally:\n    return 5",
        "for n in range(3):\n    try:\n        if n == 1:\n            continue\n        if n == 2:\n            break\n    finally:\n        last = n\nreturn last",
        "try:\n    raise ValueError('a')\nexcept ValueError as error:\n    pass\nreturn error",
        "raise", "assert 1 == 2, 'no'", "assert False",
    )  # fmt: skip


def test_patterns():
    """Patterns of sequences, mappings and classes, and their guards, are tried in order and bind names as in Python."""
    matching = "match {}:\n    case [1, *rest]:\n        return 'list', rest\n    case {{'a': value, **rest}}:\n        return value, rest\n    case int(n) if n > 3:\n        return n\n    case str():\n        return 'text'\n    case _:\n        return 'other'"
    check(
        *(
            matching.format(subject)
            for subject in ("[1, 2, 3]", "(1,)", "{'a': 1, 'b': 2}", "7", "2", "'abc'", "None", "b'a'", "[]")
        )
    )


class Pair:
    """A class with positional patterns."""

    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y


class OfNames:
    """A class whose ``__match_args__`` is not a tuple."""

    __match_args__ = ["x"]


class OfNumbers:
    """A class whose ``__match_args__`` contains an int."""

    __match_args__ = (1,)


class Twice:
    """A class whose ``__match_args__`` contains one name twice."""

    __match_args__ = ("x", "x")
    x = 1


class Plain:
    """A class without positional patterns."""

    x = 3


class OnlyFive(type):
    """A metaclass that defines ``__instancecheck__``."""

    def __instancecheck__(cls, value):
        return value == 5


class Five(metaclass=OnlyFive):
    """A class whose only instance is 5."""


def test_patterns_of_classes_match_as_in_python():
    """Class patterns use ``isinstance`` and the names in order, and raise Python's errors."""
    names = {each.__name__: each for each in (Pair, OfNames, OfNumbers, Twice, Plain, Five)}
    patterns = (
        "Pair(1, 2)", "Pair(1, y)", "Pair(y=2)", "Pair(1, 2, 3)", "Pair(1, x=1)", "OfNames(1)", "OfNumbers(1)", "Twice(1, 1)",
        "Plain(1)", "Plain(absent=1)", "Plain(x=3)", "int(1, 2)", "int(n)", "bool(n)", "str()", "list(n)", "Five()",
        "Number()", "no_class()",
    )  # fmt: skip
    subjects = ("Pair(1, 2)", "OfNames()", "OfNumbers()", "Twice()", "Plain()", "5", "True", "'s'", "2.5", "[1]")
    check(
        *(
            f"match {subject}:\n    case {pattern}:\n        return 'matches'\nreturn 'no'"
            for subject in subjects
            for pattern in patterns
        ),
        Number=numbers.Number, no_class=3, **names,
    )  # fmt: skip
