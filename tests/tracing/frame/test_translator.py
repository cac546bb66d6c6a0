"""One frame of the traced program: its stack, its handlers, its names, and where it can be left."""

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
    """What the frame returns, as Python's value."""
    translator, interpreter = frame_of(function, *arguments)
    return realise(interpreter, translator.run().value).value


def stepped(translator, opcode):
    """Run up to (and not including) an instruction."""
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
    """Whatever the path through it is."""
    for x in range(5):
        assert result_of(branching, x) == branching(x)


def catching(x):
    """An exception that is caught, with what it replaces as its context."""
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
    """The stack is cut as CPython cuts it; without an exception no handler runs."""
    assert result_of(catching, 0) == "caught"
    assert result_of(catching, 1) == 1


def adding(x):
    """An exception while operands wait on the stack above a loop's iterator."""
    total = 0
    for i in (1, 0, 2):
        try:
            total += x + 6 // i
        except ZeroDivisionError:
            total += 100
    return total


def test_operands_that_wait_are_dropped_by_an_exception():
    """The iterator of the loop is on top again, as in CPython."""
    assert result_of(adding, 1) == adding(1) == 111


def raising(x):
    """An exception while another one is handled."""
    try:
        return 1 // x
    except ZeroDivisionError:
        return {}["missing"]


def test_an_exception_knows_what_was_being_handled():
    """``__context__`` is the exception of the handler in which it was raised; nobody catches it here."""
    translator, _ = frame_of(raising, 0)
    with pytest.raises(ObservedException) as caught:
        translator.run()
    error = caught.value.value
    assert (error.python_type(), error.context.python_type()) == (KeyError, ZeroDivisionError)


def test_the_stack_is_a_stack():
    """The last that was pushed comes first; a pair comes in the order in which it was pushed."""
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
    """By its height on the stack: its source is shown where a graph breaks."""
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
    """In the traced program, which may catch it."""
    assert result_of(unbound, True) == 1
    translator, _ = frame_of(unbound, False)
    with pytest.raises(ObservedException) as caught:
        translator.run()
    assert caught.value.value.python_type() is UnboundLocalError


def test_globals_are_found_before_builtins():
    """A global has its address; that of a builtin says that no global hides it; what is neither is a NameError."""
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
    """Not when it is loaded."""
    translator, interpreter = frame_of(branching, 1)
    value = translator.load_global("scale")
    assert not any(guard.source == GlobalSource("scale") for guard in interpreter.output.guards.values())
    realise(interpreter, value)
    kinds = {guard.kind for guard in interpreter.output.guards.values() if guard.source == GlobalSource("scale")}
    assert GuardKind.EQUALS_MATCH in kinds


def protected(x):
    """A call outside of any handler, and one inside."""
    y = abs(x)
    try:
        y = abs(y)
    except ValueError:
        y = 0
    return y


def test_may_catch_says_whether_an_except_protects():
    """A handler of ``except``; none around the first call."""
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
    """And where a graph has more than one operator, which is worth compiling."""
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
    """The error names it, and has the user's line."""
    translator, _ = frame_of(branching, 1)
    unknown = Instruction("NO_SUCH_INSTRUCTION", position=translator.view.instructions[1].position)
    view = type(translator.view)([unknown, *translator.view.instructions[1:]], translator.view.labels)
    translator.view = view
    with pytest.raises(breaks.Unsupported, match="NO_SUCH_INSTRUCTION") as broken:
        translator.step()
    assert broken.value.stack[-1].function.endswith("branching")


def test_the_instructions_of_a_code_object_are_read_once():
    """Each frame of one function has the same view; its counts are its own."""
    assert code_view(branching.__code__) is code_view(branching.__code__)
    first, _ = frame_of(branching, 1)
    second, _ = frame_of(branching, 1)
    first.step()
    assert first.view is second.view and (first.steps, second.steps) == (1, 0)


def test_a_generator_yields_and_goes_on():
    """A frame's end is a return or a yield; after a yield it runs on."""

    def yielding(x):
        yield x
        yield x + 1

    translator, interpreter = frame_of(yielding, 4)
    values = []
    while (end := translator.run()).yielded:
        values.append(realise(interpreter, end.value).value)
        translator.push(ConstantVariable(None))
    assert values == [4, 5] and realise(interpreter, end.value).value is None
