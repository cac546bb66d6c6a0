"""Assertions of ``unittest.TestCase`` as plain functions: the compiler skips the modules of ``unittest``, and traces these.

They say less when they fail, and take no part in choosing one assertion by the type of its arguments.
"""

from __future__ import annotations

import re
import unittest
from typing import Any


class Raises:
    """The context of ``assertRaises``."""

    def __init__(self, expected: Any, pattern: Any = None) -> None:
        self.expected = expected
        self.pattern = pattern

    def __enter__(self):
        return self

    def __exit__(self, cls, value, traceback):
        if cls is None:
            raise AssertionError("not raised")
        if not issubclass(cls, self.expected):
            return False
        self.exception = value
        if self.pattern is not None and not re.search(self.pattern, str(value)):
            raise AssertionError(f"{self.pattern} is not in {value}")
        return True


class SubTest:
    """The context of ``subTest``: nothing."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


def assert_raises(self, expected, function=None, *arguments, **named):
    if function is None:
        return Raises(expected)
    try:
        function(*arguments, **named)
    except expected:
        return None
    raise AssertionError("not raised")


def assert_raises_regex(self, expected, pattern, function=None, *arguments, **named):
    if function is None:
        return Raises(expected, pattern)
    with Raises(expected, pattern):
        function(*arguments, **named)
    return None


def assert_equal(self, first, second, msg=None):
    if not first == second:
        raise AssertionError(f"{first!r} != {second!r}")


def assert_not_equal(self, first, second, msg=None):
    if not first != second:
        raise AssertionError(f"{first!r} == {second!r}")


def assert_sequence_equal(self, first, second, msg=None, seq_type=None):
    if len(first) != len(second):
        raise AssertionError(f"{len(first)} items, and {len(second)}")
    for one, other in zip(first, second):
        if not one == other:
            raise AssertionError(f"{one!r} != {other!r}")


def assert_true(self, value, msg=None):
    if not value:
        raise AssertionError(f"{value!r} is not true")


def assert_false(self, value, msg=None):
    if value:
        raise AssertionError(f"{value!r} is not false")


def assert_is(self, first, second, msg=None):
    if first is not second:
        raise AssertionError(f"{first!r} is not {second!r}")


def assert_is_not(self, first, second, msg=None):
    if first is second:
        raise AssertionError(f"{first!r} is {second!r}")


def assert_is_none(self, value, msg=None):
    if value is not None:
        raise AssertionError(f"{value!r} is not None")


def assert_is_not_none(self, value, msg=None):
    if value is None:
        raise AssertionError("None")


def assert_in(self, member, container, msg=None):
    if member not in container:
        raise AssertionError(f"{member!r} is not in {container!r}")


def assert_not_in(self, member, container, msg=None):
    if member in container:
        raise AssertionError(f"{member!r} is in {container!r}")


def assert_is_instance(self, value, cls, msg=None):
    if not isinstance(value, cls):
        raise AssertionError(f"{value!r} is no {cls!r}")


def assert_not_is_instance(self, value, cls, msg=None):
    if isinstance(value, cls):
        raise AssertionError(f"{value!r} is a {cls!r}")


def assert_less(self, first, second, msg=None):
    if not first < second:
        raise AssertionError(f"{first!r} >= {second!r}")


def assert_less_equal(self, first, second, msg=None):
    if not first <= second:
        raise AssertionError(f"{first!r} > {second!r}")


def assert_greater(self, first, second, msg=None):
    if not first > second:
        raise AssertionError(f"{first!r} <= {second!r}")


def assert_greater_equal(self, first, second, msg=None):
    if not first >= second:
        raise AssertionError(f"{first!r} < {second!r}")


def assert_almost_equal(self, first, second, places=None, msg=None, delta=None):
    if first == second:
        return
    distance = abs(first - second)
    if (round(distance, 7 if places is None else places) != 0) if delta is None else distance > delta:
        raise AssertionError(f"{first!r} != {second!r}")


def assert_count_equal(self, first, second, msg=None):
    if sorted(first, key=repr) != sorted(second, key=repr):
        raise AssertionError(f"{first!r} and {second!r} have other items")


def fail(self, msg=None):
    raise AssertionError(msg)


def sub_test(self, msg=None, **parameters):
    return SubTest()


REPLACED = {
    "assertRaises": assert_raises, "assertRaisesRegex": assert_raises_regex, "assertEqual": assert_equal,
    "assertNotEqual": assert_not_equal, "assertSequenceEqual": assert_sequence_equal, "assertListEqual": assert_equal,
    "assertTupleEqual": assert_equal, "assertDictEqual": assert_equal, "assertSetEqual": assert_equal,
    "assertMultiLineEqual": assert_equal, "assertTrue": assert_true, "assertFalse": assert_false, "assertIs": assert_is,
    "assertIsNot": assert_is_not, "assertIsNone": assert_is_none, "assertIsNotNone": assert_is_not_none,
    "assertIn": assert_in, "assertNotIn": assert_not_in, "assertIsInstance": assert_is_instance,
    "assertNotIsInstance": assert_not_is_instance, "assertLess": assert_less, "assertLessEqual": assert_less_equal,
    "assertGreater": assert_greater, "assertGreaterEqual": assert_greater_equal,
    "assertAlmostEqual": assert_almost_equal, "assertCountEqual": assert_count_equal, "fail": fail, "subTest": sub_test,
}  # fmt: skip
"""Function for each method of ``unittest.TestCase``."""


def replace() -> None:
    """Make them the methods of every test in this process."""
    for name, function in REPLACED.items():
        setattr(unittest.TestCase, name, function)
