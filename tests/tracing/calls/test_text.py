"""Strings that are formatted from values."""

from __future__ import annotations

from tests.support.answers import check


class Shown:
    def __repr__(self):
        return "<shown>"

    def __format__(self, specification):
        return f"[{specification}]"


NAMES = {"shown": Shown()}


def test_an_object_says_how_it_is_formatted():
    """The object's own methods are traced; a conversion is applied first."""
    check(
        "f'{shown}'",
        "f'{shown:abc}'",
        "f'{shown!r:>10}'",
        "f'{shown!s}'",
        "'{} {:x}'.format(shown, shown)",
        "repr(shown), str(shown)",
        **NAMES,
    )


def test_containers_show_their_items_by_repr():
    """Containers use ``repr`` of their items also when they are formatted; they accept no format specification."""
    check(
        "f'{[1, \"a\"]}'",
        "str({'a': [1.0]})",
        "repr((1,))",
        "f'{[1]:>5}'",
        "f'{(1, 2)}'",
        "'%s' % [None]",
        "'%r %5.2f' % ('a', 1.0)",
        **NAMES,
    )


def test_numbers_in_texts():
    """Signs of zeros, infinities, and format codes that do not fit the value."""
    check(
        'f\'{-0.0} {float("nan")} {float("inf"):+}\'',
        "f'{5:#x} {5:e} {1e300}'",
        "f'{1.5:d}'",
        "f'{\"a\":5.1}|'",
        "f'{None:5}'",
        "f'{True}'",
    )


class Whole(int):
    def __repr__(self):
        return "whole"


class Real(float):
    def __str__(self):
        return "real"


class Items(list):
    def __str__(self):
        return "items"


def test_objects_of_subclasses_of_built_in_classes():
    """Without a specification a number is formatted by the ``__str__`` of its class; with one, by its value."""
    check(
        "format(Whole(5)), f'{Whole(5)}', f'{Whole(5):>3}', format(Whole(5), 'd')", "'{} {:.1f}'.format(Real(2), Real(2))",
        "format(Items([1])), f'{Items([1])}'", "format(Items(), 'd')", Whole=Whole, Real=Real, Items=Items,
    )  # fmt: skip
