"""``isinstance`` and ``issubclass`` while tracing."""

from __future__ import annotations

import torch

from tests.support.answers import check
from tests.tracing.calls.test_builtins import NAMES


def test_kinds_of_values():
    """The second argument is a class or a tuple of classes; any other value raises an error."""
    check(
        "isinstance(1, (int, str)), isinstance(1, ()), isinstance(True, int)", "isinstance(1, 5)", "isinstance(1, (5,))",
        "issubclass(int, (str, object)), issubclass(bool, int)", "issubclass(1, int)", "issubclass(int, 1)", "type(thing) is Thing",
        "callable(len), callable(thing), callable(Thing)", "type(1), type(None)", **NAMES,
    )  # fmt: skip


def test_what_is_no_class_is_rejected_in_the_words_of_python():
    """A list of classes or a tensor is rejected; in a tuple, an earlier class that matches answers first."""
    others = (
        "[int]",
        "3",
        "'int'",
        "{int}",
        "None",
        "x",
        "(int, [str])",
        "(str, [int])",
        "(str, (float, 3))",
        "int | str",
        "int | list[int]",
        "list[int]",
        "str | list[int]",
    )
    check(
        *(f"isinstance(3, {other})" for other in others), *(f"issubclass(int, {other})" for other in others),
        "issubclass(3, int)", "isinstance(3, ())", x=lambda: torch.ones(2),
    )  # fmt: skip
