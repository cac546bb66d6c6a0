"""Operations of every tracker: errors with Python's text, graph breaks, and values that are not yet read."""

from __future__ import annotations

import pytest

from nbcompile.capture.source import LocalSource
from nbcompile.tracing import breaks
from nbcompile.tracing.exceptions import Unhashable
from nbcompile.tracing.variables.base import LazyVariable, UnknownVariable, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.observed import ObservedException
from tests.support.answers import check
from tests.tracing.frame.wrapped import guards_of, new_tracer


class Value(VariableTracker):
    """A value of a class without special methods."""

    def python_type(self) -> type:
        return type(None)


class Listing(VariableTracker):
    """A value of a class with special methods, of which none is traced."""

    def python_type(self) -> type:
        return list


OPERATIONS = {
    "get_item": lambda value, tracer: value.get_item(tracer, ConstantVariable(0)),
    "set_item": lambda value, tracer: value.set_item(tracer, ConstantVariable(0), ConstantVariable(0)),
    "length": lambda value, tracer: value.length(tracer),
    "contains": lambda value, tracer: value.contains(tracer, ConstantVariable(0)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_class_without_the_method_raises_a_type_error(name):
    """The TypeError is Python's, and the program can catch it; a class with the method breaks the graph."""
    tracer = new_tracer()
    with pytest.raises(ObservedException) as raised:
        OPERATIONS[name](Value(), tracer)
    assert raised.value.value.python_type() is TypeError
    with pytest.raises(breaks.Unsupported, match="call_method"):
        OPERATIONS[name](Listing(), tracer)


def test_the_words_are_those_of_python():
    """Subscripts, ``len``, membership, calls and iteration of values without these operations raise Python's errors."""
    check(
        "None[0]", "len(None)", "1 in 2", "None()", "next(3)", "list(None)", "object()[0]", "(1)[0]",
        "{[1]: 2}", "{(1, [2]): 3}",
    )  # fmt: skip


def test_a_value_is_hashed_by_its_class():
    """A class without a hash raises Python's error; a value that is not completely known breaks the graph."""
    with pytest.raises(Unhashable, match="list"):
        Listing().hash_key(new_tracer())
    with pytest.raises(breaks.Unsupported, match="hash"):
        Value().hash_key(new_tracer())
    assert ConstantVariable(3).hash_key(new_tracer()) == 3


def test_a_value_that_nothing_looks_at_has_no_guard():
    """The first use of a value adds a guard, and later uses return the same tracker."""
    tracer = new_tracer()
    lazy = LazyVariable(3, LocalSource("x"))
    assert lazy.python_type() is int
    assert guards_of(tracer) == []
    first = realise(tracer, lazy)
    assert first.constant() == 3
    assert len(guards_of(tracer)) == 1
    assert realise(tracer, lazy) is first
    assert realise(tracer, first) is first


def test_later_trackers_are_younger():
    """Trackers are numbered in the order of their creation."""
    first, second = Value(), Value()
    assert first.created_at < second.created_at


def test_only_what_has_no_source_is_made_here():
    """A value from outside has a source."""
    assert UnknownVariable(3, None).is_created_here()
    assert not UnknownVariable(3, LocalSource("x")).is_created_here()
