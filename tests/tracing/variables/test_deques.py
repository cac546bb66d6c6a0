"""Deques: two ends, a greatest length, and what they refuse though lists do not."""

from __future__ import annotations

import collections
from collections import deque
from typing import Any

from tests.support.answers import check

NAMES = {"deque": deque, "given": lambda: deque([1, 2, 3], 4)}


def test_a_full_deque_gives_up_the_other_end():
    """Each way of adding; an insertion is refused."""
    check(
        "deque([1, 2, 3], maxlen=2)", "deque([1], maxlen=0)", "deque([1, 2], 3) + deque([3, 4])", "deque([1, 2], 3) * 2",
        "d = deque([1], 3)\nd += [2, 3, 4]\nreturn d", "d = deque([1, 2], 3)\nd *= 2\nreturn d",
        "d = deque([1, 2], 2)\nd.append(3)\nreturn d", "d = deque([1, 2], 2)\nd.extendleft([3, 4])\nreturn d",
        "d = deque([1], 2)\nd.insert(0, 5)\nd.insert(0, 6)", "d = deque([1, 2, 3])\nd.__init__([1, 2], 1)\nreturn d, d.maxlen",
        **NAMES,
    )  # fmt: skip


def test_no_slices_and_no_other_index():
    """Reading, storing and deleting; a pop takes none, and only at the two ends."""
    check(
        "deque([1, 2])[0:1]", "deque([1, 2])['a']", "deque([1, 2])[5]", "deque([1, 2])[-1]", "d = deque([1, 2])\nd[0:1] = [5]",
        "d = deque([1, 2])\ndel d[0:1]", "d = deque([1, 2])\nd[5] = 5", "d = deque([1, 2])\ndel d[5]", "deque([1]).pop(0)",
        "deque([]).pop()", "deque([]).popleft()", "d = deque([1, 2, 3])\nreturn d.popleft(), d.pop(), d", **NAMES,
    )  # fmt: skip


def test_turning():
    """By any whole number; by nothing else."""
    check(
        "d = deque([1, 2, 3])\nd.rotate()\nreturn d", "d = deque([1, 2, 3])\nd.rotate(-4)\nreturn d", "deque().rotate(5)",
        "deque([1]).rotate('a')", "d = deque([1, 2, 3])\nd.reverse()\nreturn d", **NAMES,
    )  # fmt: skip


def test_a_change_ends_a_walk():
    """Of the length; an item in the place of another does not."""
    check(
        "d = deque([1, 2, 3])\nfor each in d:\n    d.append(each)",
        "d = deque([1, 2, 3])\nfor each in d:\n    d[0] = 5\nreturn d",
        "list(reversed(deque([1, 2])))", **NAMES,
    )  # fmt: skip


def test_limits_and_comparisons():
    """A greatest length is a number that is not negative, and cannot be stored; a deque is no list."""
    check(
        "deque([1], maxlen=-1)", "deque([1], maxlen='a')", "deque(5)", "deque([1]) == deque([1])", "deque([1]) == [1]",
        "deque([1]) < deque([2])", "deque([1]) + [3]", "deque([1, 2]).index(5)", "deque([1, 2]).index(2, 0, 1)",
        "deque([1]).remove(5)", "hash(deque())", "d = deque([1, 2])\nc = d.copy()\nreturn c == d, c is d", **NAMES,
    )  # fmt: skip


def test_a_deque_from_outside_is_changed():
    """By the compiled call as by eager mode."""
    check("given.append(4)\ngiven.append(5)\nreturn given, given.maxlen", **NAMES)
    check("given.extendleft([7, 8])\ngiven.maxlen = 3\nreturn given", **NAMES)


class Emptying:
    """An item whose ``__eq__`` empties the list or deque that it is in."""

    def __init__(self, items: Any, answer: bool) -> None:
        self.items = items
        self.answer = answer

    def __eq__(self, other: object) -> bool:
        self.items.clear()
        return self.answer

    __hash__ = object.__hash__


def test_a_comparison_may_change_what_is_searched() -> None:
    """A list goes on with what is left; a deque raises, ``remove`` another class than the others."""
    searches = ("d.remove(7)", "d.index(7)", "d.count(7)", "7 in d")
    programs = [
        f"d = {kind}()\nd.extend([1, Emptying(d, {answer}), 2])\nreturn {search}, len(d)"
        for kind in ("list", "deque")
        for answer in (True, False)
        for search in searches
    ]
    check(*programs, Emptying=Emptying, deque=collections.deque)


def test_deque_refuses_arguments_in_the_words_of_python() -> None:
    """Three arguments, and a keyword that it does not know, are refused."""
    check(
        "deque('abc', 2, 3)", "deque(foo=1)", "deque('a', iterable='b')", "list(deque(iterable='ab', maxlen=1))",
        "deque('ab', maxlen=1).maxlen", deque=collections.deque,
    )  # fmt: skip
