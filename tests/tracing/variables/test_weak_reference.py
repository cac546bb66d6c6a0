"""Weak references: as inputs, and created by the program."""

from __future__ import annotations

import weakref

from tests.support.answers import check


class Thing:
    def method(self):
        return 3


KEPT = Thing()
NAMES = {"weakref": weakref, "thing": KEPT, "ref": weakref.ref(KEPT)}


def test_a_reference_leads_to_its_object():
    """A reference has the hash of its object, is true, and is called without arguments."""
    check(
        "ref() is thing", "ref().method()", "bool(ref)", "hash(ref) == hash(thing)", "hash(weakref.ref(thing)) == hash(thing)",
        "ref(1)", "ref(a=1)", "{ref: 1}[weakref.ref(thing)]", "thing in {ref: 1}", **NAMES,
    )  # fmt: skip


def test_what_cannot_be_referred_to():
    """Numbers, lists, dicts and strings have no weak references; the program can catch the error."""
    check(
        "weakref.ref(5)",
        "weakref.ref([1])",
        "weakref.ref({})",
        "weakref.ref('a')",
        "weakref.ref(thing)() is thing",
        **NAMES,
    )
