"""Tests for nbcompile.rewriting.resume_layout: the parameters of a resume function for the frame's variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbcompile.bytecode.disassemble import disassemble
from nbcompile.rewriting.resume_layout import ResumeLayout, ResumeTarget, Slot, layout_of


def layout(
    function: Callable[..., Any], stack: tuple[Slot, ...], live: tuple[str, ...], cells: tuple[str, ...] = ()
) -> ResumeLayout:
    code = function.__code__
    target = ResumeTarget(code, 0, stack, live, cells, function=code.co_name)
    return layout_of(target, disassemble(code))


def test_operands_come_before_live_locals():
    """The arguments are the operand stack from the bottom, then the live locals; dead locals are plain locals."""

    def function(x, y):
        dead = x
        return dead + y

    found = layout(function, (Slot.VALUE, Slot.NULL, Slot.EXIT), ("x", "y"))
    assert found.operands == ("___stack0", "___stack1")  # NULL is not passed
    assert found.arguments == ("___stack0", "___stack1", "x", "y")
    assert found.varnames == (*found.arguments, "dead")
    assert found.cellvars == found.freevars == ()


def test_the_result_of_an_inlined_call_takes_two_operands():
    """A slot for a call has two arguments: the resume function and the tuple of its arguments."""

    def function(x):
        return x

    assert layout(function, (Slot.CALL,), ("x",)).operands == ("___stack0", "___stack1")


def test_names_of_operands_are_free():
    """A local variable with the name of an operand does not collide with it."""

    def function(___stack0, ___stack2, /):
        return ___stack0 + ___stack2

    found = layout(function, (Slot.VALUE, Slot.VALUE), ("___stack0", "___stack2"))
    assert found.operands == ("___stack1", "___stack3")


def test_a_cell_is_a_free_variable():
    """A cell that is passed is in the closure; any other one is new."""

    def function(x):
        shared, new = x, x

        def inner():
            return shared + new

        return inner

    found = layout(function, (), ("x",), ("shared",))
    assert found.freevars == ("shared",)
    assert found.cellvars == ("new",)
