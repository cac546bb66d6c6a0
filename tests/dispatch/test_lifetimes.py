"""Objects that are no longer used while C may still read them."""

from __future__ import annotations

import weakref

from nbcompile.dispatch import lifetimes


class Thing:
    """An object that is no longer used."""


def test_nothing_is_freed_while_a_call_is_inside():
    """A call refers to INSIDE while its hook is active, and the number of references is counted."""
    assert lifetimes.is_idle()
    thing = Thing()
    gone = weakref.ref(thing)
    inside = lifetimes.INSIDE
    lifetimes.keep(thing)
    del thing
    assert not lifetimes.is_idle()
    lifetimes.release()
    assert gone() is not None and lifetimes.pending
    del inside
    lifetimes.release()
    assert gone() is None and lifetimes.is_idle()


def test_release_says_that_nothing_waits():
    """The list of pending objects is empty after the release."""
    lifetimes.keep(Thing())
    lifetimes.release()
    assert lifetimes.pending == []
