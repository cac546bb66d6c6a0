"""``"%s of %r" % values``, where some values are not known while tracing."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from tests.support.answers import check


class Shown:
    def __repr__(self):
        return "<shown>"

    def __str__(self):
        return "text"


NAMES = {"Shown": Shown}


def test_objects_are_asked():
    """``%s`` calls ``__str__`` and ``%r`` calls ``__repr__``; widths, signs and constants are as in Python."""
    check(
        "'%s|%r|%%|%d' % (Shown(), Shown(), 3)",
        "'%8s|%-9r|%.3r|%05.1f' % (Shown(), Shown(), Shown(), 2.5)",
        "'%s' % Shown()",
        "'%r' % [Shown()]",
        **NAMES,
    )


@pytest.mark.usefixtures("nothing_compiled")
def test_a_tensor_in_the_text():
    """The text is created after the graph, which does not break."""

    def f(x):
        y = x + 1
        return y, "%s and %r: {%d}" % (y, [y], 2)  # noqa: UP031  (the test is about %)

    compiled = nbcompile.compile(f, fullgraph=True)
    assert compiled(torch.ones(2))[1] == f(torch.ones(2))[1]


class Word(str):  # noqa: SLOT000
    def __str__(self):
        return "word"


class Number(int):
    def __float__(self):
        return 2.5

    def __str__(self):
        return "number"


class Ratio(float):
    def __float__(self):
        return 9.0

    def __repr__(self):
        return "ratio"


class Table(dict):
    def __getitem__(self, key):
        return "item " + key


class Missing(dict):
    def __missing__(self, key):
        return "no " + key


SUBCLASSES = {"Word": Word, "Number": Number, "Ratio": Ratio, "Table": Table, "Missing": Missing}


def test_objects_of_subclasses_of_built_in_classes():
    """``%s`` and ``%r`` call methods of the subclass; the conversions of numbers read the built-in value."""
    check(
        "'%s|%r|%5s|%.1s' % (Word('a'), Word('b'), Word('c'), Word('d'))", "'%s' % Word('a')", "'%%%s' % Word('a')",
        "'%s %d %x %c' % (Number(65), Number(65), Number(65), Number(65))", "'%f %5.1f' % (Number(7), Ratio(2.25))",
        "'%s %r %d' % (Ratio(2.5), Ratio(2.5), Ratio(2.5))", "'%d' % Word('a')", "'%d' % Number(3)", "'%*d' % (5, 3)",
        "Word('<%s>') % 3", "Word('<%s>') % Word('a')", "'%s' % Number(1)", **SUBCLASSES,
    )  # fmt: skip


def test_names_in_the_template():
    """A name is a key, which the class of the object may answer."""
    check(
        "'%(a)s %(b)5d %(a)r %%' % {'a': Word('a'), 'b': Number(3)}", "'%(a)s' % Table(a=1)", "'%(a)s' % Missing()",
        "'%(a)s' % {'b': Word('a')}", "'%(a)s' % {'a': 1}", **SUBCLASSES,
    )  # fmt: skip
