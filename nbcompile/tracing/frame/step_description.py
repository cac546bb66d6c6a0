"""Text about a step of the interpreter, for logs and for the line of a graph break.

    LOAD_FAST x [LazyVariable(L['x'])]     the instruction, its argument, and the stack

In torch: torch/_dynamo/symbolic_convert.py (step). Read next: nbcompile/tracing/frame/translator.py
"""

from __future__ import annotations

import functools
import linecache
from types import CodeType

from nbcompile.bytecode.instruction import NOWHERE, Instruction, Position, argument_text
from nbcompile.record.model import StackLine
from nbcompile.tracing.variables.base import VariableTracker


def described(tracker: VariableTracker) -> str:
    """A tracker for the record: a tensor by the name of its node."""
    # A lazy variable is described by its realised tracker, if there is one; it is not realised now.
    node = getattr(getattr(tracker, "realised", None) or tracker, "node", None)
    return tracker.describe() if node is None else f"{type(tracker).__name__}({node})"


def stack_line(code: CodeType, instruction: Instruction) -> StackLine:
    """The source position of an instruction."""
    line = instruction.position.line or code.co_firstlineno
    return _stack_line(code.co_filename, line, code.co_name, instruction.position, instruction.offset)


def first_line(code: CodeType) -> StackLine:
    """Line at which a function is defined."""
    return _stack_line(code.co_filename, code.co_firstlineno, code.co_name, NOWHERE, 0)


@functools.lru_cache(maxsize=8192)
def _stack_line(file: str, line: int, function: str, position: Position, offset: int) -> StackLine:
    column, end_column = position.column, position.end_column
    text = linecache.getline(file, line).rstrip("\n")
    stripped = text.lstrip()
    indent = len(text) - len(stripped)
    if column is None or end_column is None or not stripped:
        return StackLine(file, line, function, stripped.rstrip(), offset=offset)
    raw = text.encode()
    begin = len(raw[:column].decode(errors="replace")) - indent
    end = (
        len(raw[:end_column].decode(errors="replace")) - indent if position.end_line == line else len(stripped.rstrip())
    )
    return StackLine(file, line, function, stripped.rstrip(), max(begin, 0), max(end, 0), offset)


def describe_argument(instruction: Instruction) -> str:
    """The instruction's argument as a listing shows it."""
    return argument_text(instruction)


LONGEST_CLAUSE = 40
"""Limit of the instructions between the begin of a handler and the comparison with the class that it handles."""
