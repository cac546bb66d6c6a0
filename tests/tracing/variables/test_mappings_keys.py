"""Equal keys are one key: the first key and the last value are stored."""

from __future__ import annotations

from typing import Any

import torch

import nbcompile
from tests.support.answers import check


def test_the_first_of_equal_keys_stays():
    """The first key is stored in a display, an update, a comprehension and a set."""
    check(
        "{1: 'a', True: 'b', 1.0: 'c'}", "d = {1: 'a'}\nd[True] = 'b'\nreturn d", "dict([(1, 2), (1.0, 3)])",
        "{key: 1 for key in (0, False, -0.0)}", "{1: 'a'} | {True: 'b'}", "{1, True, 1.0}", "dict.fromkeys([True, 1])",
        "d = {1.0: 'a'}\nd.update({1: 'b'})\nreturn d", "{**{1: 2}, True: 3}", "s = {1}\ns.add(True)\nreturn s",
        "{1.0} | {1}", "{1} & {True}", "d = {True: 1}\nd.setdefault(1, 2)\nreturn d",
    )  # fmt: skip


def test_class_of_the_program_is_not_called_to_go_over_its_keys() -> None:
    """A dict whose class requires arguments has keys, items and iterators, as any dict."""
    made = []

    class Asking(dict):  # type: ignore[type-arg]
        def __init__(self, given: dict[str, int]) -> None:
            super().__init__(given)
            made.append(self)

    class Members(set):  # type: ignore[type-arg]
        def __init__(self, given: str) -> None:
            super().__init__(given)

    def program(d: Any, s: Any, x: Any) -> Any:
        values = [value for _, value in d.items()]
        return x + sum(values), list(d), [name for name in s], type(d.keys()).__name__

    arguments = Asking({"a": 1, "b": 2}), Members("c"), torch.ones(2)
    found = nbcompile.compile(program, backend="eager", fullgraph=True)(*arguments)
    assert str(found) == str(program(*arguments))
    assert len(made) == 1
