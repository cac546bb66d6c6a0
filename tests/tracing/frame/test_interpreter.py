"""What all frames of one trace share: values, exceptions, the user's stack, and where the graph is planned to end."""

from __future__ import annotations

import math
import sys
import types

import pytest
import torch

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import LocalSource
from nbcompile.tracing.frame.interpreter import PlannedBreak
from nbcompile.tracing.graph.body import EXAMPLE
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.observed import ObservedException
from nbcompile.tracing.variables.sequences import ListVariable, TupleVariable
from tests.tracing.frame.single_frame import frame_of


def program(x):
    """Two statements."""
    y = x + 1
    return y * 2


def fetching(interpreter, iterator):
    """One item of an iterator; None at its end."""
    return interpreter.until_stop(iterator, lambda: interpreter.raise_exception(StopIteration, 7))


def test_the_graph_ends_after_as_many_instructions_as_planned():
    """At the count of the frame, and not at a position of the code; without a plan nothing ends."""
    translator, interpreter = frame_of(program, 4)
    interpreter.end_at = (3,)
    with pytest.raises(PlannedBreak) as ended:
        translator.run()
    assert translator.steps == 3 and ended.value.frames == (translator,)
    translator, interpreter = frame_of(program, 4)
    interpreter.end_at = (3, 1)  # in a function that is called then
    assert translator.run().value.value == 10


def test_containers_of_constants_are_containers_of_trackers():
    """A list and a tuple have their items; a named constant is itself."""
    _, interpreter = frame_of(program, 4)
    listed = interpreter.constant_or_wrap([1, (2, 3)])
    assert isinstance(listed, ListVariable) and isinstance(listed.items[1], TupleVariable)
    assert interpreter.constant_or_wrap(2.5).value == 2.5


def test_what_a_pure_function_raises_is_raised_in_the_program():
    """With its class and its arguments; a RecursionError is the tracer's own."""
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


def test_the_end_of_an_iterator_is_no_error():
    """``StopIteration`` is its end, and what it returned is kept; any other exception is the program's."""
    _, interpreter = frame_of(program, 4)
    iterator = interpreter.iterator([])
    assert fetching(interpreter, iterator) is None and interpreter.returned_by(iterator).value == 7
    with pytest.raises(ObservedException):
        interpreter.until_stop(iterator, lambda: interpreter.raise_exception(KeyError))


@pytest.mark.parametrize(("returned", "arguments"), [(None, 0), (5, 1)])
def test_a_return_without_a_value_stops_without_arguments(returned, arguments):
    """``StopIteration()`` and not ``StopIteration(None)``."""
    _, interpreter = frame_of(program, 4)
    iterator = interpreter.iterator([])
    iterator.ending = ConstantVariable(returned)
    with pytest.raises(ObservedException) as stopped:
        interpreter.stop(iterator)
    assert len(stopped.value.value.arguments) == arguments


def test_the_process_is_an_obstacle_once():
    """The first reason is kept."""
    _, interpreter = frame_of(program, 4)
    interpreter.depend_on_process("first")
    interpreter.depend_on_process("second")
    assert interpreter.assumed.obstacle == "first"


def test_a_module_has_an_address_while_it_is_the_imported_one():
    """A module of that name that is another object has none, nor have its globals."""
    _, interpreter = frame_of(program, 4)
    assert interpreter.module_source(math) is not None
    assert interpreter.module_source(types.ModuleType("math")) is None
    assert interpreter.is_module_scope(__name__, vars(sys.modules[__name__]))
    assert not interpreter.is_module_scope(__name__, {}) and not interpreter.is_module_scope("no.such.module", {})


def test_a_missing_attribute_of_a_module_is_guarded():
    """The program may go on by the AttributeError: it must be missing at the next call, too."""
    _, interpreter = frame_of(program, 4)
    source = LocalSource("x")
    assert interpreter.module_attribute(math, "pi", source).value == math.pi
    with pytest.raises(ObservedException):
        interpreter.module_attribute(math, "no_such_name", source)
    (guard,) = (each for each in interpreter.output.guards.values() if each.kind is GuardKind.HASATTR)
    assert guard.expected == ("no_such_name", False)


def test_the_users_stack_is_that_of_the_frames():
    """The line of the instruction that runs; the names of tensors are those of the function's locals."""
    translator, interpreter = frame_of(program, 4)
    translator.step()
    translator.step()
    (line,) = interpreter.stack()
    assert (line.function, line.code) == ("program", "y = x + 1")
    interpreter.frames.clear()
    assert interpreter.stack() == ()


def test_an_operator_on_trackers_is_a_node_of_the_graph():
    """Its result is a tensor; the operator was run on fakes."""
    _, interpreter = frame_of(program, 4)
    three = interpreter.apply(torch.zeros, [ConstantVariable(3)])
    added = interpreter.apply_method("add", [three, ConstantVariable(1)])
    assert [node.target for node in interpreter.output.graph.nodes] == [torch.zeros, "add"]
    assert tuple(added.node.meta[EXAMPLE].shape) == (3,)


def test_steps_are_recorded_only_for_who_wants_them():
    """Each with the instruction, the line and the stack before it."""
    translator, interpreter = frame_of(program, 4)
    translator.run()
    assert interpreter.steps is None and interpreter.last_steps() == ()
    translator, interpreter = frame_of(program, 4)
    interpreter.steps = []
    translator.run()
    assert len(interpreter.steps) == translator.steps
    assert {step.function for step in interpreter.steps} == {"program"} and interpreter.steps[
        -1
    ].opcode == "RETURN_VALUE"
