"""Builtins that are traced as Python functions."""

from __future__ import annotations

import collections
import functools
import operator

from tests.support.answers import check
from tests.tracing.variables.test_sequences import Index


class Inner:
    b = (2,)


class Thing:
    a = 1
    inner = Inner()


NAMES = {"collections": collections, "functools": functools, "operator": operator, "Index": Index, "thing": Thing()}


def test_zip_and_enumerate():
    """Iterables of different lengths in both orders, and a start that is not a number."""
    check(
        "list(zip([1, 2], [3]))", "list(zip())", "list(zip([1], strict=True))", "list(zip([1, 2], [3], strict=True))",
        "list(zip([1], [3, 4], strict=True))", "list(zip([1], [3], [4, 5], strict=True))", "list(zip([1], 5))",
        "list(enumerate('ab', 5))", "list(enumerate('ab', start=Index(3)))", "list(enumerate('ab', 'c'))", "list(enumerate('ab', 1.5))",
        "list(enumerate())", "list(enumerate(5))", **NAMES,
    )  # fmt: skip


def test_functions_over_items():
    """None as the function of ``filter`` means truth; for ``map`` it is an error."""
    check(
        "list(map(lambda a, b: a + b, [1, 2], [3]))", "list(map(str))", "list(map(None, [1]))", "list(map(str, 5))", "list(filter(None, [0, 1]))",
        "list(filter(5, [1]))", "any([]), all([]), any([0, 1]), all([0, 1])", "any(5)", "all([1], [2])",
        "functools.reduce(operator.add, [1, 2], 5)", "functools.reduce(operator.add, [], 5)", "functools.reduce(operator.add, [])",
        "xs = [3, 2, 1]\nreturn list(iter(xs.pop, 1)), xs", "iter([1], 2, 3)", **NAMES,
    )  # fmt: skip


def test_getters():
    """Getters of one and of several items; their arguments are checked at their creation."""
    check(
        "operator.itemgetter(1)([1, 2])", "operator.itemgetter(0, 1)([1, 2])", "operator.itemgetter(5)([1])", "operator.itemgetter()",
        "operator.itemgetter(slice(1))([1, 2])", "operator.attrgetter('a')(thing)", "operator.attrgetter('a', 'inner.b')(thing)",
        "operator.attrgetter('inner.x')(thing)", "operator.attrgetter(1)", "operator.attrgetter()", "operator.attrgetter('a', 2)",
        "operator.methodcaller('append', 3)([1])", "operator.methodcaller('zz')(thing)", "operator.methodcaller(1)", **NAMES,
    )  # fmt: skip


def test_dicts_from_keys():
    """The keys come from any iterable of hashable values."""
    check(
        *(f"{cls}.fromkeys({given})" for cls in ("dict", "collections.OrderedDict", "collections.defaultdict", "{}")
          for given in ("", "1, 2, 3", "1, 2, 3, 4")),
        "dict.fromkeys(iterable=[1])", "dict.fromkeys([1], value=2)", "collections.OrderedDict.fromkeys([1], zz=2)", **NAMES,
    )  # fmt: skip
    check("dict.fromkeys('ab', 1)", "dict.fromkeys([1, 2])", "dict.fromkeys(5)", "dict.fromkeys([[1]])")
