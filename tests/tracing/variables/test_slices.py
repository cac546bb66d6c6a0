"""Slices as objects: their creation, their parts, and their indices for a length."""

from __future__ import annotations

from tests.support.answers import check
from tests.tracing.variables.test_sequences import Index


def test_parts_and_equality():
    """A single argument is the stop; slices with equal parts are equal."""
    check(
        "(slice(1).start, slice(1).stop, slice(1).step)", "slice(1) == slice(None, 1, None)", "slice(1) == slice(1, None)",
        "repr(slice(1, 2))", "str(slice('a', None))", "bool(slice(1))", "isinstance(slice(1), slice)",
    )  # fmt: skip


def test_indices_of_a_length():
    """Indices are clipped to the length; a negative length, a step of 0 and other types raise Python's errors."""
    check(
        "slice(1, 2).indices(5)", "slice(None, None, -2).indices(5)", "slice(-100, 100).indices(5)", "slice(1, 2).indices(-1)",
        "slice(None, None, 0).indices(5)", "slice(1, 2).indices('a')", "slice(1.5).indices(4)", "slice('a').indices(5)",
        "slice(Index(1), Index(2)).indices(Index(5))", "[1, 2, 3][slice(Index(1), None)]", Index=Index,
    )  # fmt: skip


def test_arguments_that_do_not_fit():
    """Too few, too many and keyword arguments raise errors."""
    check(
        "slice()", "slice(1, 2, 3, 4)", "slice(stop=3)", "slice(1, 2).indices()", "slice(1, 2).indices(5, 6)",
        "slice(1, 2)[0]", "len(slice(1))",
    )  # fmt: skip
