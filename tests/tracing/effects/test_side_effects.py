"""Side effects that are deferred until the graph has run: one tracker per object, one change per name."""

from __future__ import annotations

import types

import pytest

from nbcompile.capture.source import LocalSource
from nbcompile.tracing import breaks
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.sequences import ListVariable
from tests.tracing.frame.wrapped import new_tracer

ONE, TWO = ConstantVariable(1), ConstantVariable(2)


@pytest.fixture
def tracer():
    """A tracer with an object from outside."""
    made = new_tracer()
    made.owner = made.wrap(types.SimpleNamespace(a=1), LocalSource("x"))
    return made


def test_what_is_stored_is_read_again(tracer):
    """A read returns the last stored value; a deleted attribute is recorded as deleted."""
    effects, owner = tracer.side_effects, tracer.owner
    assert effects.attribute(owner, "a") is None
    effects.store_attribute(tracer, owner, "a", ONE)
    effects.store_attribute(tracer, owner, "a", TWO)
    assert effects.attribute(owner, "a") is TWO
    assert not effects.is_deleted(owner, "a")
    effects.delete_attribute(tracer, owner, "a")
    assert effects.is_deleted(owner, "a")
    assert effects.changed(owner) is owner


def test_objects_are_replayed_in_the_order_of_their_first_change(tracer):
    """Each object is replayed once, whatever the number of its changes; each change is counted."""
    effects, owner = tracer.side_effects, tracer.owner
    items = ListVariable([ONE], LocalSource("y"))
    effects.store_attribute(tracer, owner, "a", ONE)
    effects.mark_mutated(tracer, items)
    effects.store_attribute(tracer, owner, "b", ONE)
    assert [change.tracker for change in effects.order] == [owner, items]
    assert effects.count() == 3


def test_a_global_is_that_of_its_dict(tracer):
    """A name in the globals of another module is another global."""
    effects, scope, other = tracer.side_effects, {}, {}
    effects.store_global(tracer, scope, "n", ONE)
    effects.store_global(tracer, scope, "n", TWO)
    assert effects.load_global(scope, "n").value is TWO
    assert effects.load_global(other, "n") is None
    assert effects.stored_globals(scope) == {"n": TWO}
    assert len(effects.order) == 1
    assert scope == {}


def test_what_was_made_since_is_nothing_outside(tracer):
    """A mutation of a new object is not a change outside; a mutation of an object from outside is."""
    effects = tracer.side_effects
    since = effects.count()
    fresh = ListVariable([ONE])
    effects.mark_mutated(tracer, fresh)
    assert not effects.changes_outside(since, fresh.created_at)
    effects.store_attribute(tracer, tracer.owner, "a", ONE)
    assert effects.changes_outside(since, fresh.created_at)
    assert not effects.changes_outside(effects.count(), fresh.created_at)


def test_an_object_is_kept_with_its_tracker(tracer):
    """A value is found by its identity until it is removed."""
    effects, value = tracer.side_effects, []
    assert effects.known(value) is None
    assert effects.remember(value, ONE) is ONE
    assert effects.known(value) is ONE
    assert any(kept is value for kept in effects.alive)
    effects.forget(value)
    assert effects.known(value) is None


def test_another_dict_is_no_attribute(tracer):
    """The graph breaks, because a new ``__dict__`` would replace all attributes at once."""
    with pytest.raises(breaks.Unsupported, match="__dict__"):
        tracer.side_effects.store_attribute(tracer, tracer.owner, "__dict__", ONE)


def test_draws_are_numbered_in_order(tracer):
    """Each random draw counts as a change, and has its position among the draws."""
    assert [tracer.side_effects.call_before_graph(lambda reconstruction: None) for _ in range(2)] == [0, 1]
    assert tracer.side_effects.count() == 2
