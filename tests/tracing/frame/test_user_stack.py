"""The frames of a trace as the user's stack."""

from __future__ import annotations

import torch

from nbcompile.tracing.frame import user_stack
from nbcompile.tracing.variables.constant import ConstantVariable
from tests.tracing.frame.single_frame import frame_of


def program(x):
    """Two statements."""
    y = x + 1
    return y * 2


def test_the_users_stack_is_that_of_the_frames():
    """The stack contains the line of the current instruction."""
    translator, interpreter = frame_of(program, 4)
    translator.step()
    translator.step()
    (line,) = interpreter.stack()
    assert (line.function, line.code) == ("program", "y = x + 1")
    interpreter.frames.clear()
    assert interpreter.stack() == ()


def test_a_tensor_has_the_name_of_the_outermost_variable():
    """A tensor has the name of the variable in the outermost frame that contains it."""
    translator, interpreter = frame_of(program, 4)
    three = interpreter.apply(torch.zeros, [ConstantVariable(3)])
    translator.locals["y"] = three
    inner, _ = frame_of(program, 4)
    inner.locals["x"] = three
    assert user_stack.names([translator, inner]) == {three.node: "y"}
    assert user_stack.callee([]) == ""
