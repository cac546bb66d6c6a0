"""Prologue of a resume function: rebuild the operand stack of the original frame, then continue in its body.

    slot of the stack        instructions
    a value                  LOAD_FAST ___stack0
    NULL next to a callable  PUSH_NULL
    __exit__ of a ``with``   LOAD_FAST ___stack1; BEFORE_WITH; POP_TOP      the manager is entered again

In torch: torch/_dynamo/resume_execution.py (ReenterWith). Read next: resume.py
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from nbcompile.bytecode.dialects import HERE
from nbcompile.bytecode.flow import (
    outer_protection,
)
from nbcompile.bytecode.instruction import Instruction, Position, Protection, label_indices
from nbcompile.rewriting.resume_layout import OPERANDS, ResumeLayout, ResumeTarget, Slot


def prologue_of(
    point: ResumeTarget, layout: ResumeLayout, protections: Sequence[Protection | None], position: Position
) -> Iterator[Instruction]:
    """The instructions before the body: cells, then moved variables, then the operand stack, bottom first.

    Args:
        point: the instruction where the function resumes, with the slots of the stack.
        layout: the variables of the resume function.
        protections: the exception handler around an instruction, for each height of the stack.
        position: the line that a traceback shows for the prologue.
    """
    # The order of CPython's compiler: copy the closure's cells to the frame, create new cells, begin the frame.
    if layout.freevars:
        yield Instruction("COPY_FREE_VARS", len(layout.freevars))
    for name in layout.cellvars:
        yield Instruction("MAKE_CELL", argval=name)
    if point.original.co_flags & inspect.CO_GENERATOR:
        yield Instruction("RETURN_GENERATOR", position=position)
        yield Instruction("POP_TOP", position=position)
    yield Instruction("RESUME", 0, 0, position=position)
    # A variable that comes in under another name (resume_layout.py) moves to the slot that the body uses.
    for name, moved in layout.moved.items():
        if name in layout.freevars:
            yield Instruction("LOAD_CLOSURE", argval=moved, position=position)
            yield Instruction("STORE_FAST", argval=name, position=position)
        elif moved in layout.arguments:
            yield Instruction("LOAD_FAST", argval=moved, position=position)
            yield Instruction("STORE_FAST", argval=name, position=position)
            yield Instruction("DELETE_FAST", argval=moved, position=position)
    operands = iter(layout.operands)
    # Each slot is pushed as it was, with the protection that holds at its height: ``outside`` below the slot,
    # ``inside`` once a ``with`` is entered.
    for slot, (outside, inside) in zip(point.stack, itertools.pairwise(protections), strict=True):
        names = list(itertools.islice(operands, OPERANDS[slot]))
        for instruction in _push(slot, names):
            yield replace(instruction, position=position)
        for number, instruction in enumerate(_AFTER_LOAD[slot]):
            # What follows BEFORE_WITH is in the block: a later break finds the block's handler by that.
            in_block = number > 0 and slot is Slot.EXIT
            yield replace(instruction, position=position, protection=inside if in_block else outside)


def _push(slot: Slot, names: Sequence[str]) -> Iterator[Instruction]:
    """Push the arguments of a stack slot as they were before the break, and delete the names."""
    loads = [Instruction("LOAD_FAST", argval=name) for name in names]
    # The inlined function's rest is called now: the slot of ``self`` is NULL, then the function, then its arguments.
    if slot is Slot.CALL:
        loads.insert(0 if HERE.null_below_callable else 1, Instruction("PUSH_NULL"))
    yield from loads
    # The frame must not keep an object alive that the original frame had on its stack only.
    yield from (Instruction("DELETE_FAST", argval=name) for name in names)


_AFTER_LOAD: dict[Slot, tuple[Instruction, ...]] = {
    Slot.VALUE: (),
    Slot.NULL: (Instruction("PUSH_NULL"),),
    # Enter the manager again: the exit function stays on the stack, what ``__enter__`` returns is dropped.
    Slot.EXIT: (Instruction("BEFORE_WITH"), Instruction("POP_TOP")),
    # The exception becomes the current one again, for a bare ``raise`` and ``__context__``.
    Slot.HANDLED: (Instruction("PUSH_EXC_INFO"), Instruction("POP_TOP")),
    Slot.LASTI: (Instruction("LOAD_CONST", argval=0),),
    # The resume function of the callee and a tuple of its arguments are on the stack.
    Slot.CALL: (Instruction("CALL_FUNCTION_EX", 0),),
}
"""Instructions that complete a slot after its argument, if any, is on the stack."""


def protection_at(instructions: list[Instruction], index: int, height: int) -> Protection | None:
    """The protected range around an instruction at which the stack is only ``height`` deep.

    Ranges nest: an exception that escapes a handler goes to the range around
    that handler. So a context manager that fails to be entered again raises
    where it would have in the original.
    """
    return outer_protection(instructions, label_indices(instructions), instructions[index].protection, height)
