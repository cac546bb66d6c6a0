"""Trackers of values that tracing itself created."""

from __future__ import annotations

from nbcompile.tracing.variables.sequences import ListVariable, TupleVariable
from tests.tracing.frame.single_frame import frame_of


def program(x):
    """Two statements."""
    y = x + 1
    return y * 2


def test_containers_of_constants_are_containers_of_trackers():
    """A list and a tuple have trackers of their items; a constant has its value."""
    _, interpreter = frame_of(program, 4)
    listed = interpreter.constant_or_wrap([1, (2, 3)])
    assert isinstance(listed, ListVariable) and isinstance(listed.items[1], TupleVariable)
    assert interpreter.constant_or_wrap(2.5).value == 2.5


def test_other_containers_and_slices_are_trackers_of_their_own():
    """A dict, a set and a slice have their parts and their class."""
    _, interpreter = frame_of(program, 4)
    assert interpreter.constant_or_wrap({"a": [1]}).get_item(interpreter, interpreter.constant_or_wrap("a")).items
    assert interpreter.constant_or_wrap(frozenset({1})).python_type() is frozenset
    assert interpreter.constant_or_wrap(slice(1, 2)).python_type() is slice
