"""The instruction that breaks the graph: its operands, the action that Python runs, and the resume points."""

from __future__ import annotations

import pytest

from nbcompile.capture.recipe import Constant
from nbcompile.capture.trace import BrokenCall, BrokenJump, BrokenOperation, Continue
from nbcompile.tracing.effects.reconstruction import Reconstruction
from nbcompile.tracing.frame import break_points
from nbcompile.tracing.frame.break_points import describe, pending
from tests.tracing.frame.single_frame import frame_of


def called(x, y):
    """Two calls, the second with a keyword."""
    kept = [x]
    other = pow(x, exp=y)
    return kept, other


def spread(x, y):
    """A call whose arguments are in containers."""
    return pow(*(x,), **{"exp": y})


def compared(x, y):
    """A comparison, and an item."""
    return x < y, (x, y)[1]


def stores(x, y):
    """An item assignment."""
    x[y] = 5
    return x


def branches(x, y):
    """A branch, and an operator whose operand stays on the stack if it is true."""
    if x:
        return y
    return x or y


def until(function, arguments, *opcodes, times=1):
    """The frame, stopped before the nth instruction whose name begins with one of the opcodes."""
    translator, interpreter = frame_of(function, *arguments)
    while True:
        if translator.view.instructions[translator.pc].opcode.startswith(opcodes):
            times -= 1
            if not times:
                return translator, interpreter
        assert translator.step() is None


def broken(function, arguments, *opcodes, times=1, callers=()):
    """The instruction that Python runs, with its action and its resume points."""
    translator, interpreter = until(function, arguments, *opcodes, times=times)
    found = pending(translator, resumes=True)
    action, points, outer = describe(translator, found, callers, Reconstruction(interpreter))
    return found, action, points, outer


def test_every_breakable_instruction_has_a_reason_in_words():
    """Every instruction except jumps has a reason; a comprehension is described as a call."""
    jumps = {name for name in break_points.BREAKABLE if "JUMP" in name}
    assert jumps and {name for name in break_points.BREAKABLE if name not in break_points.REASONS} - jumps <= {
        "LOAD_FAST_AND_CLEAR"
    }


def test_a_call_has_its_operands_as_recipes():
    """The action contains the function, the arguments and the keywords; the frame resumes after one push."""
    found, action, points, _ = broken(called, (2, 3), "CALL")
    assert isinstance(action, BrokenCall) and found.pushes == 1
    assert action.arguments == (Constant(2),) or [recipe.value for recipe in action.arguments] == [2]
    assert [name for name, _ in action.keywords] == ["exp"] and action.keywords[0][1].value == 3
    (point,) = points
    assert point.pushes == 1 and [name for name, _ in point.live] == ["kept"]


def test_containers_of_arguments_are_passed_on():
    """``f(*a, **k)``: the tuple and the dict are two recipes."""
    _, action, _, _ = broken(spread, (2, 3), "CALL_FUNCTION_EX")
    assert isinstance(action, BrokenCall) and action.arguments == () and action.keywords == ()
    assert action.star is not None and action.double_star is not None


def test_operands_are_in_the_order_of_python():
    """A comparison has the left and the right operand; a store has the container, the key and the value."""
    found, action, points, _ = broken(compared, (2, 3), "COMPARE_OP")
    assert isinstance(action, BrokenOperation) and action.operation == "compare" and found.slots == 2
    assert [recipe.value for recipe in action.operands] == [2, 3] and action.symbol == "<"
    assert {name for name, _ in points[0].live} == {"x", "y"}
    found, action, points, _ = broken(stores, ([1, 2], 1), "STORE_SUBSCR")
    assert action.operation == "setitem" and (found.slots, found.pushes) == (3, 0)
    assert [getattr(recipe, "value", None) for recipe in action.operands][1:] == [1, 5]


def test_a_jump_has_two_targets():
    """The first target is the one for a true condition, for both kinds of jump."""
    found, action, points, _ = broken(branches, (2, 3), "POP_JUMP")
    assert isinstance(action, BrokenJump) and action.test == "truth" and action.condition.value == 2
    (holds, keeps), (fails, _) = found.targets
    assert holds < fails and not keeps
    assert [point.pushes for point in points] == [0, 0]
    assert [{name for name, _ in point.live} for point in points] == [{"y"}, {"x", "y"}]


def test_only_what_is_read_again_is_carried():
    """A resume function receives only the variables that it reads, because an argument keeps its object alive."""

    def f(x, y):
        z = x + y
        abs(z)
        return y

    _, _, (point,), _ = broken(f, (2, 3), "CALL")
    assert [name for name, _ in point.live] == ["y"]


def test_a_frame_that_does_not_resume_goes_on_itself():
    """Python continues at the instruction itself, so no operand is popped."""
    translator, interpreter = until(called, (2, 3), "CALL")
    found = pending(translator, resumes=False)
    action, (point,), outer = describe(translator, found, (), Reconstruction(interpreter))
    assert isinstance(action, Continue) and (found.slots, found.pushes) == (0, 0) and outer == ()
    assert len(point.stack) == len(translator.stack)


def test_a_cell_is_carried_as_a_cell():
    """A cell is passed as a cell, because an inner function must see later assignments."""

    def f(x, y):
        def inner():
            return x

        abs(y)
        return inner, x

    _, _, (point,), _ = broken(f, (2, 3), "CALL")
    assert [name for name, _ in point.cells] == ["x"] and "x" not in dict(point.live)


def test_of_the_operands_of_a_comprehension_its_iterator_is_not_named():
    """A comprehension is a function call up to Python 3.11, whose iterator does not need its class."""
    translator, _ = until(called, (2, 3), "CALL")
    operands = translator.stack[-2:]
    assert break_points._named_operands(operands) == operands


@pytest.mark.parametrize("name", ["CALL", "CALL_FUNCTION_EX", "BINARY_SUBSCR"])
def test_what_pushes_a_functions_result_is_a_call(name):
    """A property's getter and ``__getitem__`` are calls of functions, too."""
    assert name in break_points.CALLS
