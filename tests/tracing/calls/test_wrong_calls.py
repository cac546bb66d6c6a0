"""Wrong calls of builtins: the class and the text of the exception are CPython's."""

from __future__ import annotations

import functools
import re
import types

import pytest
import torch

import nbcompile
from tests.support.answers import check

PROXY = types.MappingProxyType({"a": 1, "b": [2]})


class Ordered:
    """An object that records the values with which it is compared."""

    asked: list[tuple[int, int]] = []

    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        self.asked.append((self.value, other.value))
        return self.value < other.value


def test_arguments_that_a_builtin_rejects():
    """Too many arguments, unknown names and wrong types raise CPython's errors."""
    check(
        "sorted([1], foo=1)", "sorted()", "sorted([1], [2])", "sorted(5)", "sorted([1], reverse='x')", "dict([1], [2])", "dict(5)",
        "dict([1])", "dict([(1, 2, 3)])", "vars(5)", "vars(1, 2)", "vars([])", "vars('a')", "range('a')", "range()", "range(1, 2, 0)",
        "range(1.5)", "range(None)", "range(1, 'a')", "range(a=1)", "range(3)['a']", "isinstance([], list[int])",
        "isinstance([], (list, list[int]))", "isinstance([], (list[int], list))", "isinstance(3, (str, list[int]))", "isinstance(True, (int, list[int]))", "isinstance(True, (list[int], int))",
        "issubclass(list, list[int])", "iter(5, 1)", "re.finditer('(', 'a')", "re.finditer('a', 1)", re=re,
    )  # fmt: skip


def test_a_window_on_a_dict_as_text_and_in_unions():
    """A ``mappingproxy`` from outside can be formatted, and joined with ``|``."""
    check(
        "repr(proxy), str(proxy), f'{proxy}', format(proxy)", "proxy | {'c': 3}", "{'c': 3} | proxy", "proxy | proxy", "proxy | 5",
        "p = proxy\np |= {'c': 3}\nreturn p", "type(proxy | {})", proxy=PROXY,
    )  # fmt: skip


def test_notes_of_exceptions():
    """The notes of an exception are strings, in the order in which they were added."""
    check(
        """
        try:
            raise ValueError("x")
        except ValueError as error:
            error.add_note("one")
            error.add_note("two")
            return error.__notes__, str(error), error.args
        """,
        """
        error = ValueError("x")
        try:
            error.add_note(5)
        except TypeError as other:
            return str(other), hasattr(error, "__notes__")
        """,
    )


def test_an_exception_leaves_with_its_notes():
    """An exception that leaves the function has the notes that were added to it."""

    def f(x):
        error = KeyError("x")
        error.add_note("note")
        raise error

    with pytest.raises(KeyError) as caught:
        nbcompile.compile(f, backend="eager")(torch.ones(1))
    assert caught.value.__notes__ == ["note"]


def test_matches_one_after_the_other():
    """``finditer`` of a pattern and ``re.finditer`` return their matches in order."""
    check(
        "[m.group() for m in re.finditer('[a-z]', 'a1b2')]", "[m.span() for m in re.compile('[0-9]+').finditer('a1b22')]",
        "next(re.finditer('a', 'abca')).start()", "list(re.finditer('x', 'abc'))", "[m.group(1) for m in re.finditer('(A)(b)?', 'abaa', re.I)]",
        re=re,
    )  # fmt: skip


def test_comparisons_by_a_function():
    """``functools.cmp_to_key`` calls the function, and raises the function's errors."""
    check(
        "sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: b - a))", "max([3, 1], key=functools.cmp_to_key(lambda a, b: b - a))",
        "xs = [(1, 'b'), (0, 'z'), (1, 'a')]\nxs.sort(key=functools.cmp_to_key(lambda a, b: a[0] - b[0]))\nreturn xs",
        "functools.cmp_to_key(lambda a, b: 0)(1).obj", "sorted([1, 2], key=functools.cmp_to_key(lambda a, b: 1 // 0))",
        "functools.cmp_to_key(lambda a, b: a - b)(1) < functools.cmp_to_key(lambda a, b: a - b)(2)", functools=functools,
    )  # fmt: skip


@pytest.mark.parametrize("values", [[], [4], [3, 1, 2], [9, 8, 7, 1], [n * 37 % 50 for n in range(90)]])
def test_objects_are_sorted_by_the_comparisons_of_python(values):
    """Sorting compares the same pairs of objects in the same order as Python."""

    def f(x, values):
        objects = [Ordered(value) for value in values]
        objects.sort()
        return x, [each.value for each in objects], [each.value for each in sorted(objects, reverse=True)]

    Ordered.asked.clear()
    wanted, asked = f(torch.ones(1), values), [*Ordered.asked]
    Ordered.asked.clear()
    assert nbcompile.compile(f, backend="eager", fullgraph=True)(torch.ones(1), values) == wanted
    assert Ordered.asked == asked
