"""Objects that are out of use while C may be looking at them."""

from __future__ import annotations

import weakref

from nbcompile.dispatch import lifetimes


class Thing:
    """What is put out of use."""


def test_nothing_is_freed_while_a_call_is_inside():
    """A call refers to INSIDE while it has the hook on; counting these references is all that is done."""
    assert lifetimes.nobody_is_inside()
    thing = Thing()
    gone = weakref.ref(thing)
    inside = lifetimes.INSIDE
    lifetimes.keep(thing)
    del thing
    assert not lifetimes.nobody_is_inside()
    lifetimes.release()
    assert gone() is not None and lifetimes.pending
    del inside
    lifetimes.release()
    assert gone() is None and lifetimes.nobody_is_inside()


def test_release_says_that_nothing_waits():
    """The list that calls look at is empty then."""
    lifetimes.keep(Thing())
    lifetimes.release()
    assert lifetimes.pending == []
