"""Containers from outside: their trackers, and their guards before an item is used."""

from __future__ import annotations

import collections
import types

import pytest

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import LocalSource
from nbcompile.tracing.variables import deques, iterators, mappings, sequences
from nbcompile.tracing.variables.base import LazyVariable
from nbcompile.tracing.wrapping.containers import FEW
from tests.tracing.frame.wrapped import new_tracer, wrapped

Pair = collections.namedtuple("Pair", "a b")  # noqa: PYI024 - a class without annotations


@pytest.mark.parametrize(
    "value", [[1, 2, 3], (1, 2, 3), collections.deque([1, 2, 3])], ids=lambda value: type(value).__name__
)
def test_items_of_a_sequence_are_guarded_when_they_are_used(value):
    """First only the class and the length are guarded, and a deque's limit; each item is lazy."""
    tracker, guards = wrapped(value)
    assert isinstance(tracker, (sequences.ListVariable, sequences.TupleVariable, deques.DequeVariable))
    assert all(isinstance(item, LazyVariable) for item in tracker.items)
    assert guards[:2] == [(GuardKind.TYPE_MATCH, type(value)), (GuardKind.SEQUENCE_LENGTH, 3)]
    assert [kind for kind, _ in guards[2:]] == [GuardKind.NONE_MATCH] * isinstance(value, collections.deque)


def test_the_limit_of_a_deque_is_guarded():
    """The limit is guarded, because an append to a full deque drops an item."""
    _, guards = wrapped(collections.deque([1], 4))
    assert (GuardKind.EQUALS_MATCH, 4) in guards


def test_a_named_tuple_has_its_class_and_reads_fields_by_name():
    """The source of an item is the field of the named tuple."""
    tracker, _ = wrapped(Pair(1, 2))
    assert tracker.python_type() is Pair
    assert [item.source.attribute for item in tracker.items] == ["a", "b"]


def test_one_list_has_one_tracker():
    """A list with two sources has one tracker, because both names show its changes."""
    tracer, value = new_tracer(), [1]
    first = tracer.wrap(value, LocalSource("x"))
    assert tracer.wrap(value, LocalSource("y")) is first
    assert GuardKind.OBJECT_ALIASING in [guard.kind for guard in tracer.output.guards.values()]


def test_the_position_of_an_iterator_is_guarded():
    """The number of remaining items of a tuple, or the remaining range, is guarded."""
    over_tuple, over_range = iter((1, 2, 3)), iter(range(10))
    next(over_tuple)
    next(over_range)
    tracker, guards = wrapped(over_tuple)
    assert isinstance(tracker, iterators.SequenceIteratorVariable)
    assert guards == [(GuardKind.TUPLE_ITERATOR_LEN, 2)]
    assert wrapped(over_range)[1] == [(GuardKind.RANGE_ITERATOR_MATCH, (1, 10, 1))]


def test_values_of_a_dict_are_lazy():
    """The class is guarded first; a value is guarded at its lookup."""
    tracker, guards = wrapped({"a": 1, "b": [2]})
    assert isinstance(tracker, mappings.DictVariable)
    assert (GuardKind.TYPE_MATCH, dict) in guards
    assert not any(expected in (1, [2]) for _, expected in guards)


@pytest.mark.parametrize(("count", "kind"), [(2, GuardKind.SET_CONTAINS), (FEW + 1, GuardKind.SET_MEMBERS)])
def test_members_of_a_set_are_guarded(count, kind):
    """Each member of a small set has a guard; a large set has one guard for all members."""
    _, guards = wrapped(set(range(count)))
    assert (GuardKind.SEQUENCE_LENGTH, count) in guards
    assert [found for found, _ in guards].count(kind) == (count if kind is GuardKind.SET_CONTAINS else 1)


def test_the_view_of_a_dict_has_the_tracker_of_the_dict():
    """A proxy of a plain dict shows that dict; the proxy of a class has no tracker of its kind."""
    tracker, _ = wrapped(types.MappingProxyType({"a": 1}))
    assert tracker.python_type() is types.MappingProxyType
    assert isinstance(tracker, mappings.VariableTracker)
    assert type(tracker).__name__ == "MappingProxyVariable"
    assert type(wrapped(vars(Pair))[0]).__name__ == "UnknownVariable"


@pytest.mark.parametrize("value", [range(3), slice(1, 2), staticmethod(len)], ids=lambda value: type(value).__name__)
def test_small_values_have_their_class(value):
    """The tracker has the Python type of the value, and the value is guarded."""
    tracker, guards = wrapped(value)
    assert tracker.python_type() is type(value)
    assert guards
