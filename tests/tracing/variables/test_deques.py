"""Deques: their two ends, their maximum length, and operations that lists have and deques reject."""

from __future__ import annotations

import collections
from collections import deque
from typing import Any

from tests.support.answers import check

NAMES = {"deque": deque, "given": lambda: deque([1, 2, 3], 4)}


def test_a_full_deque_gives_up_the_other_end():
    """Additions at one end of a full deque drop items at the other end; an insertion raises an error."""
    check(
        "deque([1, 2, 3], maxlen=2)", "deque([1], maxlen=0)", "deque([1, 2], 3) + deque([3, 4])", "deque([1, 2], 3) * 2",
        "d = deque([1], 3)\nd += [2, 3, 4]\nreturn d", "d = deque([1, 2], 3)\nd *= 2\nreturn d",
        "d = deque([1, 2], 2)\nd.append(3)\nreturn d", "d = deque([1, 2], 2)\nd.extendleft([3, 4])\nreturn d",
        "d = deque([1], 2)\nd.insert(0, 5)\nd.insert(0, 6)", "d = deque([1, 2, 3])\nd.__init__([1, 2], 1)\nreturn d, d.maxlen",
        **NAMES,
    )  # fmt: skip


def test_no_slices_and_no_other_index():
    """A slice or a wrong index raises an error in reads, stores and deletions; ``pop`` takes no index."""
    check(
        "deque([1, 2])[0:1]", "deque([1, 2])['a']", "deque([1, 2])[5]", "deque([1, 2])[-1]", "d = deque([1, 2])\nd[0:1] = [5]",
        "d = deque([1, 2])\ndel d[0:1]", "d = deque([1, 2])\nd[5] = 5", "d = deque([1, 2])\ndel d[5]", "deque([1]).pop(0)",
        "deque([]).pop()", "deque([]).popleft()", "d = deque([1, 2, 3])\nreturn d.popleft(), d.pop(), d", **NAMES,
    )  # fmt: skip


def test_turning():
    """``rotate`` accepts any int, and rejects other values."""
    check(
        "d = deque([1, 2, 3])\nd.rotate()\nreturn d", "d = deque([1, 2, 3])\nd.rotate(-4)\nreturn d", "deque().rotate(5)",
        "deque([1]).rotate('a')", "d = deque([1, 2, 3])\nd.reverse()\nreturn d", **NAMES,
    )  # fmt: skip


def test_a_change_ends_a_walk():
    """A change of the length stops an iteration; a replaced item does not."""
    check(
        "d = deque([1, 2, 3])\nfor each in d:\n    d.append(each)",
        "d = deque([1, 2, 3])\nfor each in d:\n    d[0] = 5\nreturn d",
        "list(reversed(deque([1, 2])))", **NAMES,
    )  # fmt: skip


def test_limits_and_comparisons():
    """The maximum length is a nonnegative int and read-only; a deque never equals a list."""
    check(
        "deque([1], maxlen=-1)", "deque([1], maxlen='a')", "deque(5)", "deque([1]) == deque([1])", "deque([1]) == [1]",
        "deque([1]) < deque([2])", "deque([1]) + [3]", "deque([1, 2]).index(5)", "deque([1, 2]).index(2, 0, 1)",
        "deque([1]).remove(5)", "hash(deque())", "d = deque([1, 2])\nc = d.copy()\nreturn c == d, c is d", **NAMES,
    )  # fmt: skip


def test_a_deque_from_outside_is_changed():
    """A deque from outside is mutated as in eager mode."""
    check("given.append(4)\ngiven.append(5)\nreturn given, given.maxlen", **NAMES)
    check("given.extendleft([7, 8])\ngiven.maxlen = 3\nreturn given", **NAMES)


class Emptying:
    """An item whose ``__eq__`` empties its list or deque."""

    def __init__(self, items: Any, answer: bool) -> None:
        self.items = items
        self.answer = answer

    def __eq__(self, other: object) -> bool:
        self.items.clear()
        return self.answer

    __hash__ = object.__hash__


def test_a_comparison_may_change_what_is_searched() -> None:
    """A list continues with the remaining items; a deque raises an error, whose class depends on the method."""
    searches = ("d.remove(7)", "d.index(7)", "d.count(7)", "7 in d")
    programs = [
        f"d = {kind}()\nd.extend([1, Emptying(d, {answer}), 2])\nreturn {search}, len(d)"
        for kind in ("list", "deque")
        for answer in (True, False)
        for search in searches
    ]
    check(*programs, Emptying=Emptying, deque=collections.deque)


def test_deque_rejects_arguments_in_the_words_of_python() -> None:
    """Three arguments and an unknown keyword raise errors."""
    check(
        "deque('abc', 2, 3)", "deque(foo=1)", "deque('a', iterable='b')", "list(deque(iterable='ab', maxlen=1))",
        "deque('ab', maxlen=1).maxlen", deque=collections.deque,
    )  # fmt: skip
