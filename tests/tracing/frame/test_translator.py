"""One frame of the traced program: its stack, its exception handlers, its names, and its possible break points."""

from __future__ import annotations

import pytest
import torch

from nbcompile.bytecode.instruction import Instruction
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import GlobalSource
from nbcompile.tracing import breaks
from nbcompile.tracing.frame.translator import code_view
from nbcompile.tracing.variables.base import realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.observed import ObservedException
from tests.tracing.frame.single_frame import frame_of

scale = 3


def result_of(function, *arguments):
    """The return value of a frame, as a Python value."""
    translator, interpreter = frame_of(function, *arguments)
    return realise(interpreter, translator.run().value).value


def stepped(translator, opcode):
    """A frame that ran up to an instruction, without it."""
    while translator.view.instructions[translator.pc].opcode != opcode:
        assert translator.step() is None
    return translator


def branching(x):
    """A loop, a branch, and arithmetic."""
    total = 0
    for i in (1, 2, 3):
        if i == x:
            continue
        total += i * scale
    return total


def test_a_frame_of_constants_runs_to_what_python_returns():
    """The frame returns Python's value on each path."""
    for x in range(5):
        assert result_of(branching, x) == branching(x)


def catching(x):
    """An exception that is caught, and a second one raised from it."""
    try:
        try:
            return 1 // x
        except ZeroDivisionError:
            raise KeyError("inner") from None
    except KeyError:
        return "caught"
    finally:
        x = 5


def test_exceptions_go_to_the_handlers_that_protect_them():
    """The handler of the innermost ``try`` runs, and none runs without an exception."""
    assert result_of(catching, 0) == "caught"
    assert result_of(catching, 1) == 1


def adding(x):
    """An exception while operands are on the stack above a loop's iterator."""
    total = 0
    for i in (1, 0, 2):
        try:
            total += x + 6 // i
        except ZeroDivisionError:
            total += 100
    return total


def test_operands_that_wait_are_dropped_by_an_exception():
    """The exception drops the operands above the loop's iterator, as in CPython."""
    assert result_of(adding, 1) == adding(1) == 111


def raising(x):
    """An exception raised while another one is handled."""
    try:
        return 1 // x
    except ZeroDivisionError:
        return {}["missing"]


def test_an_exception_knows_what_was_being_handled():
    """``__context__`` of an uncaught exception is the exception of the handler in which it was raised."""
    translator, _ = frame_of(raising, 0)
    with pytest.raises(ObservedException) as caught:
        translator.run()
    error = caught.value.value
    assert (error.python_type(), error.context.python_type()) == (KeyError, ZeroDivisionError)


def test_the_stack_is_a_stack():
    """Values are popped in reverse order; a pair and several values keep the order of their pushes."""
    translator, _ = frame_of(branching, 1)
    values = [ConstantVariable(number) for number in range(5)]
    for value in values:
        translator.push(value)
    assert translator.pop_raw() is values[4] and translator.pop() is values[3]
    assert translator.pop_pair() == (values[1], values[2])
    assert translator.pop_many(0) == [] and translator.pop_many(1) == [values[0]] and translator.stack == []
    for value in values[:3]:
        translator.push(value)
    assert translator.pop_many(2) == values[1:3]


def test_what_pushed_a_value_is_remembered():
    """The frame records the instruction that pushed each value, for the message about a graph break."""
    translator, _ = frame_of(lambda x: (x + 1, x * 2), 4)
    stepped(translator, "BUILD_TUPLE")
    assert len(translator.operands()) == 2
    first, second = (translator.pushed_by[height] for height in (1, 2))
    assert first.offset < second.offset and {first.opcode, second.opcode} == {"BINARY_OP"}


def unbound(x):
    """A local that is read before it has a value."""
    if x:
        y = 1
    return y


def test_a_local_without_a_value_raises_as_python_does():
    """The read raises an UnboundLocalError in the traced program."""
    assert result_of(unbound, True) == 1
    translator, _ = frame_of(unbound, False)
    with pytest.raises(ObservedException) as caught:
        translator.run()
    assert caught.value.value.python_type() is UnboundLocalError


def test_globals_are_found_before_builtins():
    """A global has a source, a builtin a guard that no global hides it, and a missing name raises a NameError."""
    translator, interpreter = frame_of(branching, 1)
    assert realise(interpreter, translator.load_global("scale")).value == 3
    assert translator.global_source("scale") == GlobalSource("scale")
    assert translator.load_global("len").source is not None
    with pytest.raises(ObservedException) as raised:
        translator.load_global("missing_name")
    assert raised.value.value.python_type() is NameError
    absent = [
        str(guard.source)
        for guard in interpreter.output.guards.values()
        if guard.kind is GuardKind.DICT_CONTAINS and guard.expected == ("missing_name", False)
    ]
    assert len(absent) == 2, "of the module, and of builtins"


def test_a_constant_global_is_guarded_when_it_is_looked_at():
    """The guard is added at the first use of the value, not at the load."""
    translator, interpreter = frame_of(branching, 1)
    value = translator.load_global("scale")
    assert not any(guard.source == GlobalSource("scale") for guard in interpreter.output.guards.values())
    realise(interpreter, value)
    kinds = {guard.kind for guard in interpreter.output.guards.values() if guard.source == GlobalSource("scale")}
    assert GuardKind.EQUALS_MATCH in kinds


def protected(x):
    """A call outside any handler, and one inside."""
    y = abs(x)
    try:
        y = abs(y)
    except ValueError:
        y = 0
    return y


def test_may_catch_says_whether_an_except_protects():
    """``may_catch`` is true only for the call inside the ``try``."""
    translator, _ = frame_of(protected, -1)
    seen = []
    while True:
        before = translator.view.instructions[translator.pc]
        if before.opcode == "CALL":
            translator.current = before
            seen.append(translator.may_catch())
        if translator.step() is not None:
            break
    assert seen == [False, True]


def test_a_frame_can_be_left_where_its_stack_is_empty():
    """A frame can break where its stack is empty and its graph has at least two operators."""
    translator, interpreter = frame_of(protected, -1)
    x = interpreter.output.root.placeholder("x", torch.ones(2))
    translator.step()
    assert not translator.can_stop_here(), "there is no operator yet"
    for _ in range(2):
        interpreter.output.graph.call_function(torch.sin, (x,))
    assert translator.can_stop_here()
    translator.push(ConstantVariable(1))
    assert not translator.can_stop_here(), "something waits on the stack"


def test_an_instruction_without_a_handler_breaks_the_graph():
    """The error contains the name of the instruction and the user's function."""
    translator, _ = frame_of(branching, 1)
    unknown = Instruction("NO_SUCH_INSTRUCTION", position=translator.view.instructions[1].position)
    view = type(translator.view)([unknown, *translator.view.instructions[1:]], translator.view.labels)
    translator.view = view
    with pytest.raises(breaks.Unsupported, match="NO_SUCH_INSTRUCTION") as broken:
        translator.step()
    assert broken.value.stack[-1].function.endswith("branching")


def test_the_instructions_of_a_code_object_are_read_once():
    """Frames of one function share a view of the code, but each frame counts its own steps."""
    assert code_view(branching.__code__) is code_view(branching.__code__)
    first, _ = frame_of(branching, 1)
    second, _ = frame_of(branching, 1)
    first.step()
    assert first.view is second.view and (first.steps, second.steps) == (1, 0)


def test_a_generator_yields_and_goes_on():
    """A frame ends at a return or a yield, and continues after a yield."""

    def yielding(x):
        yield x
        yield x + 1

    translator, interpreter = frame_of(yielding, 4)
    values = []
    while (end := translator.run()).yielded:
        values.append(realise(interpreter, end.value).value)
        translator.push(ConstantVariable(None))
    assert values == [4, 5] and realise(interpreter, end.value).value is None
