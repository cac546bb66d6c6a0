"""Guards on the keys of a dict and on the order of a set."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import torch

from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import GuardKind
from nbcompile.options import Options
from nbcompile.tracing.inputs.dynamism import Dynamism
from nbcompile.tracing.tracer import trace


class HashedKey:
    """A key whose class defines ``__hash__``."""

    def __hash__(self) -> int:
        return 3


def expected_of(function: Callable[..., Any], given: object) -> dict[GuardKind, list[object]]:
    """The expected values of the guards of a frame with one container and one tensor, by kind."""
    frame = Frame(function.__code__, {"given": given, "x": torch.ones(2)}, globals(), vars(builtins))
    found: dict[GuardKind, list[object]] = {}
    for guard in trace(frame, Options(), Dynamism(False)).guards():
        found.setdefault(guard.kind, []).append(guard.expected)
    return found


def of_each(given: Any, x: Any) -> Any:
    """The tensor plus the length of each item's text."""
    for item in given:
        x = x + len(str(item))
    return x


def test_the_keys_of_a_dict_are_one_guard() -> None:
    """One guard contains all keys in their order."""
    assert expected_of(of_each, {"b": 1, "a": 2})[GuardKind.DICT_KEYS] == [("b", "a")]


def test_no_guard_runs_the_hash_of_a_users_key() -> None:
    """The length is guarded, and each other key at its position."""
    found = expected_of(lambda given, x: x + len(list(given.keys())), {"a": 1, HashedKey(): 2})
    assert GuardKind.DICT_KEYS not in found and 2 in found[GuardKind.DICT_LENGTH]
    assert "a" in found[GuardKind.EQUALS_MATCH]


def test_the_order_of_a_set_is_one_guard_that_has_its_members() -> None:
    """{0, 8} and {8, 0} are equal and differ in order; a second guard on the members is not needed."""
    found = expected_of(of_each, {8, 0})
    assert found[GuardKind.SET_ORDER] == [tuple({8, 0})]
    assert GuardKind.SET_MEMBERS not in found
