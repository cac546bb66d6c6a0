"""isinstance and issubclass while tracing."""

from __future__ import annotations

from tests.support.answers import check
from tests.tracing.calls.test_builtins import NAMES


def test_kinds_of_values():
    """Classes, tuples of them, and what is neither."""
    check(
        "isinstance(1, (int, str)), isinstance(1, ()), isinstance(True, int)", "isinstance(1, 5)", "isinstance(1, (5,))",
        "issubclass(int, (str, object)), issubclass(bool, int)", "issubclass(1, int)", "issubclass(int, 1)", "type(thing) is Thing",
        "callable(len), callable(thing), callable(Thing)", "type(1), type(None)", **NAMES,
    )  # fmt: skip
