"""Steps of iterators: the next item, the end, and the value that a generator returned."""

from __future__ import annotations

import pytest

from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.observed import ObservedException
from tests.tracing.frame.single_frame import frame_of


def program(x):
    """Two statements."""
    y = x + 1
    return y * 2


def fetching(interpreter, iterator):
    """The next item of an iterator, or None at its end."""
    return interpreter.until_stop(iterator, lambda: interpreter.raise_exception(StopIteration, 7))


def test_the_end_of_an_iterator_is_no_error():
    """``StopIteration`` ends the iterator, and its value is stored; any other exception reaches the program."""
    _, interpreter = frame_of(program, 4)
    iterator = interpreter.iterator([])
    assert fetching(interpreter, iterator) is None and interpreter.returned_by(iterator).value == 7
    with pytest.raises(ObservedException):
        interpreter.until_stop(iterator, lambda: interpreter.raise_exception(KeyError))


@pytest.mark.parametrize(("returned", "arguments"), [(None, 0), (5, 1)])
def test_a_return_without_a_value_stops_without_arguments(returned, arguments):
    """A generator without a return value raises ``StopIteration()``, not ``StopIteration(None)``."""
    _, interpreter = frame_of(program, 4)
    iterator = interpreter.iterator([])
    iterator.ending = ConstantVariable(returned)
    with pytest.raises(ObservedException) as stopped:
        interpreter.stop(iterator)
    assert len(stopped.value.value.arguments) == arguments


def test_none_is_sent_by_next():
    """``send(None)`` to an iterator without a ``send`` method returns its next item."""
    _, interpreter = frame_of(program, 4)
    iterator = interpreter.iterator([ConstantVariable(1)])
    assert interpreter.send(iterator, ConstantVariable(None)).value == 1
    assert interpreter.send(iterator, ConstantVariable(None)) is None
