"""What every tracker answers: refusals in Python's words, breaks, and values that nothing looked at yet."""

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
    """Python's own, which the program can catch; a class with the method breaks the graph."""
    tracer = new_tracer()
    with pytest.raises(ObservedException) as raised:
        OPERATIONS[name](Value(), tracer)
    assert raised.value.value.python_type() is TypeError
    with pytest.raises(breaks.Unsupported, match="call_method"):
        OPERATIONS[name](Listing(), tracer)


def test_the_words_are_those_of_python():
    """Of subscripts, lengths, membership, calls and iteration of a value that has none of them."""
    check(
        "None[0]", "len(None)", "1 in 2", "None()", "next(3)", "list(None)", "object()[0]", "(1)[0]",
        "{[1]: 2}", "{(1, [2]): 3}",
    )  # fmt: skip


def test_a_value_is_hashed_by_its_class():
    """A class without a hash raises as Python does; a value that is not known whole breaks the graph."""
    with pytest.raises(Unhashable, match="list"):
        Listing().hash_key(new_tracer())
    with pytest.raises(breaks.Unsupported, match="hash"):
        Value().hash_key(new_tracer())
    assert ConstantVariable(3).hash_key(new_tracer()) == 3


def test_a_value_that_nothing_looks_at_has_no_guard():
    """Once it is looked at it is guarded, and has one tracker from then on."""
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
    """Trackers are numbered in the order in which they are made."""
    first, second = Value(), Value()
    assert first.created_at < second.created_at


def test_only_what_has_no_source_is_made_here():
    """A value from outside is known elsewhere."""
    assert UnknownVariable(3, None).is_created_here()
    assert not UnknownVariable(3, LocalSource("x")).is_created_here()
