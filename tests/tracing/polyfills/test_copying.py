"""Copies of objects whose class does not define how it is copied."""

from __future__ import annotations

import copy

from tests.support.answers import check


class Thing:
    def __init__(self):
        self.a = 1
        self.b = [1, {"k": 2}]


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self):
        self.a = 1


class Stated:
    def __init__(self):
        self.a = 1

    def __getstate__(self):
        return {"a": self.a + 1}


NAMES = {"copy": copy, "Thing": Thing, "thing": lambda: Thing(), "Slotted": Slotted, "Stated": Stated}


def test_a_shallow_copy_shares_its_parts():
    """A deep copy does not share its parts; a copy of a constant or a class is the object itself."""
    check(
        "copy.copy(thing).a, copy.copy(thing) is thing, copy.copy(thing).b is thing.b", "copy.deepcopy(thing).b[1] is thing.b[1]",
        "copy.deepcopy(thing).b", "copy.copy([1, [2]])", "copy.deepcopy((1, [2]))", "copy.copy(5), copy.copy(None)", "copy.copy(Thing) is Thing",
        "copy.deepcopy({1: [2]})", "copy.copy(len) is len", **NAMES,
    )  # fmt: skip


def test_slots_and_states():
    """An empty slot stays empty; a class with ``__getstate__`` is copied by its state."""
    check(
        "copy.copy(Slotted()).a", "hasattr(copy.copy(Slotted()), 'b')", "copy.copy(Stated()).a", "thing.__getstate__()",
        "Slotted().__getstate__()", "thing.__reduce_ex__(2)[0].__name__", **NAMES,
    )  # fmt: skip
