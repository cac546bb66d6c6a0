"""State that all frames of one trace share: values, exceptions, the user's stack, and planned graph breaks."""

from __future__ import annotations

import math

import pytest

from nbcompile.tracing.frame.interpreter import PlannedBreak
from nbcompile.tracing.variables.observed import ObservedException
from tests.tracing.frame.single_frame import frame_of


def program(x):
    """Two statements."""
    y = x + 1
    return y * 2


def test_the_graph_ends_after_as_many_instructions_as_planned():
    """The graph ends after a number of steps of the frame; without a plan the frame runs to its end."""
    translator, interpreter = frame_of(program, 4)
    interpreter.end_at = (3,)
    with pytest.raises(PlannedBreak) as ended:
        translator.run()
    assert translator.steps == 3 and ended.value.frames == (translator,)
    translator, interpreter = frame_of(program, 4)
    interpreter.end_at = (3, 1)  # in a function that is called at that step
    assert translator.run().value.value == 10


def test_what_a_pure_function_raises_is_raised_in_the_program():
    """The program gets the exception's class and arguments; a RecursionError is raised in the tracer."""
    _, interpreter = frame_of(program, 4)
    assert interpreter.evaluate(math.sqrt, (9.0,)) == 3.0
    with pytest.raises(ObservedException) as raised:
        interpreter.evaluate(math.sqrt, (-1.0,))
    assert raised.value.value.python_type() is ValueError

    def endless():
        raise RecursionError

    with pytest.raises(RecursionError):
        interpreter.evaluate(endless, ())
    assert "endless" in interpreter.assumed.obstacle, "another process may get another answer of the user's function"


def test_the_process_is_an_obstacle_once():
    """Only the first reason is recorded."""
    _, interpreter = frame_of(program, 4)
    interpreter.depend_on_process("first")
    interpreter.depend_on_process("second")
    assert interpreter.assumed.obstacle == "first"
