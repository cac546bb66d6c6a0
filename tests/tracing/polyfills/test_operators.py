"""Functions of ``operator`` that are traced as Python functions."""

from __future__ import annotations

import operator

from tests.support.answers import check
from tests.tracing.variables.test_sequences import Index

NAMES = {"operator": operator, "Index": Index, "nan": float("nan")}


def test_only_sequences_are_joined():
    """``concat`` rejects numbers, although they can be added."""
    check(
        "operator.concat([1], [2])", "operator.concat('a', 'b')", "operator.concat([1], 5)", "operator.concat(1, 2)", "operator.concat({1}, {2})",
        "operator.iconcat(1, 2)", "xs = [1]\nreturn operator.iconcat(xs, [2]) is xs, xs", **NAMES,
    )  # fmt: skip


def test_items_are_found_as_containers_find_them():
    """An identical NaN is found."""
    check(
        "operator.countOf([1, nan, nan], nan)", "operator.indexOf([1, nan], nan)", "operator.indexOf([1], 2)", "operator.contains([nan], nan)",
        "operator.countOf([float('nan')], float('nan'))", "operator.delitem([1], 5)",
        "d = {1: 2}\noperator.delitem(d, 1)\noperator.setitem(d, 3, 4)\nreturn d", **NAMES,
    )  # fmt: skip


def test_hints_of_lengths():
    """``length_hint`` is a length, a hint, or the default, which must be an int."""
    check(
        "operator.length_hint([1, 2])", "operator.length_hint(iter([1]))", "operator.length_hint(5, 7)", "operator.length_hint(5, 'a')",
        "operator.length_hint(5, 1.0)", "operator.index(Index(3))", "operator.index(1.5)", **NAMES,
    )  # fmt: skip
