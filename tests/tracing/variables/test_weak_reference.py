"""Weak references: as inputs, and created by the program."""

from __future__ import annotations

import weakref

import pytest
import torch

import nbcompile
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


class Equal:
    """Objects that are equal: their references are equal, too, and two."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1


def _callback(reference):
    pass


@pytest.mark.parametrize("cls", [Thing, Equal])
@pytest.mark.parametrize("given", [None, _callback])
def test_an_object_has_one_reference_without_a_callback(cls, given):
    """``weakref.ref(thing) is ref`` is true for the reference of that object, in each later call, if it has no callback."""
    one, other = cls(), cls()
    references = [weakref.ref(one), weakref.ref(other), weakref.ref(one, given), weakref.ref(one)]

    def f(x, thing, reference):
        new = weakref.ref(thing)
        same = (new is reference, weakref.ref(thing, None) is reference, weakref.ref(thing, _callback) is reference)
        return x + 1, same, new is weakref.ref(thing), new == reference, new in [reference], len({new, reference})

    compiled = nbcompile.compile(f, backend="eager")
    for thing in (one, other, one):
        for reference in references:
            assert compiled(torch.ones(1), thing, reference)[1:] == f(torch.ones(1), thing, reference)[1:]


def test_references_of_new_objects():
    """Two references to one new object are one, also after the graph; those of two objects are two."""

    def f(x):
        one, other = Thing(), Thing()
        kept = [weakref.ref(one), weakref.ref(one), weakref.ref(other), weakref.ref(one, _callback)]
        return x + 1, [each is kept[0] for each in kept], kept, one, other

    _, same, kept, one, other = nbcompile.compile(f, backend="eager", fullgraph=True)(torch.ones(1))
    assert same == [True, True, False, False]
    assert [each is kept[0] for each in kept] == same
    assert [each() for each in kept] == [one, one, other, one]
