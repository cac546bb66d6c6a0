"""The wrapping table: the first row that accepts a value decides."""

from __future__ import annotations

import collections

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import LocalSource
from nbcompile.tracing.variables.base import UnknownVariable
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.wrapping import containers, table
from tests.tracing.frame.wrapped import guards_of, new_tracer, wrapped


def first_row(value: object) -> object:
    """The function that wraps a value."""
    return next(make for accepts, make in table.ROWS if accepts(value))


def test_special_kinds_come_before_general_ones():
    """A named tuple is wrapped as a sequence, and a bool as a constant."""
    pair = collections.namedtuple("pair", "a b")(1, 2)  # noqa: PYI024 - a class without annotations
    assert first_row(pair) is containers.wrap_sequence
    assert first_row(collections.OrderedDict()) is containers.wrap_dict
    assert first_row(True).__name__ == "wrap_constant"


def test_of_an_unknown_kind_only_the_class_is_known():
    """A generator from outside has no tracker of its kind; its class is guarded."""
    value = (item for item in ())
    tracker, guards = wrapped(value)
    assert isinstance(tracker, UnknownVariable)
    assert guards == [(GuardKind.TYPE_MATCH, type(value))]


def test_a_second_address_must_lead_to_the_same_object():
    """A list with two sources has a guard on their identity; a value without a source adds no guard."""
    tracer, value = new_tracer(), [1]
    table.wrap(tracer, value, LocalSource("x"))
    before = len(guards_of(tracer))
    table.wrap(tracer, value, None)
    assert len(guards_of(tracer)) == before
    table.wrap(tracer, value, LocalSource("y"))
    assert guards_of(tracer)[before:] == [(GuardKind.OBJECT_ALIASING, LocalSource("x"))]


def test_a_constant_of_the_program_is_not_guarded():
    """A value without a source belongs to the program."""
    tracer = new_tracer()
    assert isinstance(table.wrap(tracer, 3, None), ConstantVariable)
    assert guards_of(tracer) == []
