"""Layout of a resume function: which variable of the original frame is passed how.

    original frame at the break           resume function
    operand stack   [a, b]                arguments ___stack0, ___stack1
    live locals     x, y                  arguments x, y
    cell            n (a closure has it)  free variable n: its closure has the same cell
    local, dead     t                     local t, unbound

In torch: torch/_dynamo/resume_execution.py (ContinueExecutionCache.generate). Read next: resume_prologue.py
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import CodeType

from nbcompile.bytecode.disassemble import disassemble
from nbcompile.bytecode.flow import (
    INTROSPECTION,
    possibly_unbound,
    variable_accesses,
)
from nbcompile.bytecode.instruction import Instruction


class CannotResume(Exception):
    """A point of a code object that cannot become the start of a function; the message says why."""


class Slot(Enum):
    """Kind of one slot of the operand stack, bottom first."""

    VALUE = "value"
    """Any object; passed as an argument."""
    NULL = "null"
    """The NULL next to a callable; not passed."""
    EXIT = "exit"
    """``__exit__`` of an active ``with``. The context manager is passed, and entered again."""
    HANDLED = "handled"
    """Inside a handler: what was being handled outside (flow.handled_slots). What is passed is
    the exception that is being handled inside; it becomes current again. Where that exception
    is on the stack itself, just above, it is passed once more, as VALUE."""
    LASTI = "lasti"
    """The ``lasti`` below an exception in clean-up code. Not passed."""
    CALL = "call"
    """The result of an inlined function: its resume function and a tuple of that one's arguments are passed.
    It is called here, below the original's own ``with`` blocks."""


OPERANDS = {Slot.VALUE: 1, Slot.NULL: 0, Slot.EXIT: 1, Slot.HANDLED: 1, Slot.LASTI: 0, Slot.CALL: 2}
"""Number of arguments ``___stackN`` of each kind of slot."""


@dataclass(frozen=True, slots=True)
class ResumeTarget:
    """A point in the user's code, with the stack and the variables there."""

    original: CodeType
    """The code that was traced; it may be that of a resume function."""
    offset: int
    """The offset of the instruction to run next (``Instruction.offset``)."""
    stack: tuple[Slot, ...]
    """The layout of the operand stack at that point."""
    live: tuple[str, ...]
    """Names of the locals that are bound and live. Other locals are unbound in the resume function."""
    cells: tuple[str, ...] = ()
    """Names of the frame's cell variables whose cells are passed on. Any other one starts as a new, empty cell."""
    line: int | None = None
    """The line of the break, for the name; None: that of the instruction."""
    end: int | None = None
    """The end of an inlined comprehension that begins at ``offset``, and whose result is returned: ``stack`` is then
    only its iterator. None: the end of the function.
    """
    function: str = ""
    """The name of the user's function; "": that of ``original``."""
    parent: CodeType | None = None
    """The resume function in which the break occurred, if it was one."""

    def key(self) -> tuple[object, ...]:
        return (id(self.original), self.offset, self.stack, self.live, self.cells, self.line, self.end)


@dataclass(frozen=True, slots=True)
class ResumeLayout:
    """The variables of the resume function."""

    operands: tuple[str, ...]
    """The arguments that hold the stack."""
    arguments: tuple[str, ...]
    varnames: tuple[str, ...]
    cellvars: tuple[str, ...]
    """Cells that begin new here."""
    freevars: tuple[str, ...]
    """Variables in the closure, by their names in the original."""
    moved: Mapping[str, str]
    """Cell variables that come in under another name; the prologue moves them to the slot that the body names."""


def _named_variables(body: Sequence[Instruction]) -> tuple[set[str], set[str]]:
    """The variables that a body names as locals, and those that it names as cells."""
    # An instruction names a variable as a local or as a cell; which it is decides where the resume function keeps it.
    accesses = [found for instruction in body for found in variable_accesses(instruction)]
    cells = {name for access, name in accesses if access == "cell"}
    return {name for access, name in accesses if access != "cell"}, cells


def layout_of(point: ResumeTarget, body: Sequence[Instruction]) -> ResumeLayout:
    """The arguments, locals, cells and free variables of the resume function whose body this is."""
    code = point.original
    used, shared = _named_variables(body)
    # locals() would show the other name, and it shows variables that nothing else names.
    shows_all = bool(INTROSPECTION.intersection(code.co_names))
    moved = _moved_names(point, used, shows_all)
    cells = tuple(name for name in point.cells if shows_all or name in shared or name in moved)
    assert not set(cells) & set(point.live), "a variable is passed either as a value or as a cell"
    # ``___stack0``, ..., without those that are variables of the user's.
    operands = tuple(itertools.islice(_operand_names(code), sum(OPERANDS[slot] for slot in point.stack)))
    arguments = operands + tuple(moved.get(name, name) for name in point.live)
    return ResumeLayout(
        operands,
        arguments,
        arguments + tuple(name for name in code.co_varnames if name in used and name not in arguments),
        # A cell variable that is not passed begins as a new cell, as in a call of the function.
        tuple(name for name in code.co_cellvars if name in moved or (name in shared and name not in cells)),
        tuple(sorted(code.co_freevars + cells, key=lambda name: moved.get(name, name))),  # as Python sorts them
        moved,
    )


def _moved_names(point: ResumeTarget, used: set[str], shows_all: bool) -> dict[str, str]:
    """Other names for the cells of variables whose slot holds a cell at one time and a plain local at another."""
    # PEP 709 (inlined comprehensions) has such slots. A free variable could not be both; and an empty cell raises
    # another error where it is read as a free variable.
    code = point.original
    unbound = set() if shows_all else possibly_unbound(code, disassemble(code)) & set(point.cells)
    return {name: _moved_name(name, code) for name in code.co_cellvars if name in used | unbound}


def _operand_names(code: CodeType) -> Iterator[str]:
    names = (f"___stack{number}" for number in itertools.count())
    return (name for name in names if name not in code.co_varnames)


def _moved_name(name: str, code: CodeType) -> str:
    names = (f"___{'outer_' * number}{name}" for number in itertools.count(1))
    return next(each for each in names if each not in code.co_freevars + code.co_varnames + code.co_cellvars)
