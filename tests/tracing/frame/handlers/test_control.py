"""Jumps, handlers of exceptions and patterns."""

from __future__ import annotations

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
    """A class, a tuple of them, a base; what a metaclass says of subclasses is not asked."""
    raising = "try:\n    raise {}\nexcept {} as error:\n    return 'caught', type(error)\n"
    check(
        raising.format("Own(1)", "KeyError"), raising.format("Own", "(ValueError, LookupError)"), raising.format("Own", "KINDS"),
        raising.format("KeyError(1)", "Own"), raising.format("KeyError(1)", "Claimed"), raising.format("Claimed", "KeyError"),
        raising.format("KeyError", "()"), **NAMES,
    )  # fmt: skip


def test_what_cannot_be_caught():
    """Numbers and other classes, also in a tuple, and tuples in tuples; only where something is raised."""
    trying = "try:\n    {}\nexcept {}:\n    return 1\nreturn 2"
    check(
        *(trying.format(body, kind) for body in ("raise ValueError(3)", "pass") for kind in ("5", "int", "(KeyError, 5)", "(KINDS, Own)")),
        **NAMES,
    )  # fmt: skip


def test_the_way_out_of_a_block():
    """``else`` runs without an exception, ``finally`` in any case, and its return replaces the exception."""
    check(
        "try:\n    x = 1\nexcept ValueError:\n    x = 2\nelse:\n    x = 3\nfinally:\n    y = 4\nreturn x, y",
        "try:\n    raise KeyError(1)\nfinally:\n    return 5",
        "for n in range(3):\n    try:\n        if n == 1:\n            continue\n        if n == 2:\n            break\n    finally:\n        last = n\nreturn last",
        "try:\n    raise ValueError('a')\nexcept ValueError as error:\n    pass\nreturn error",
        "raise", "assert 1 == 2, 'no'", "assert False",
    )  # fmt: skip


def test_patterns():
    """Sequences, mappings, classes and guards, in order; what binds a name binds it for the whole function."""
    matching = "match {}:\n    case [1, *rest]:\n        return 'list', rest\n    case {{'a': value, **rest}}:\n        return value, rest\n    case int(n) if n > 3:\n        return n\n    case str():\n        return 'text'\n    case _:\n        return 'other'"
    check(
        *(
            matching.format(subject)
            for subject in ("[1, 2, 3]", "(1,)", "{'a': 1, 'b': 2}", "7", "2", "'abc'", "None", "b'a'", "[]")
        )
    )
