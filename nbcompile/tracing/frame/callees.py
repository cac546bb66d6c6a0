"""Callees: the function that an instruction calls, in the user's own words.

    line 4    y = torch.save(x, buffer) or x
                  ~~~~~~~~~~~~~~~~~~~~~          CALL: "torch.save"

The text is that of the source, so that a message names what the reader sees; where the compiler noted no columns, or
where a statement calls something that it does not spell out (``with`` calls ``__exit__``), there is no name.

In torch: exc.py shows the line of the user's stack. Read next: nbcompile/tracing/frame/translator.py
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Sequence
from types import CodeType

from nbcompile.bytecode.instruction import Instruction

_CALLS = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX"})
_PART_OF_CALL = frozenset({"PRECALL", "KW_NAMES", "PUSH_NULL"})
"""Instructions that CPython puts at the source location of the call that follows them."""


def callee(code: CodeType, instructions: Sequence[Instruction], current: Instruction) -> str:
    """The called expression as it is written: ``torch.save``; "" where the instruction is no call in the source."""
    if current.opcode not in _CALLS or _is_exit(instructions, current):
        return ""
    try:
        expression = ast.parse(f"({_text(code, current)})", mode="eval").body
    except (SyntaxError, ValueError):  # ValueError: a null character
        return ""
    return " ".join(ast.unparse(expression.func).split()) if isinstance(expression, ast.Call) else ""


def _is_exit(instructions: Sequence[Instruction], current: Instruction) -> bool:
    """True for the call of ``__exit__``, whose three arguments None have the source location of the call itself."""
    before = instructions[: instructions.index(current)]
    last = next((each for each in reversed(before) if each.opcode not in _PART_OF_CALL), None)
    is_none = last is not None and last.opcode == "LOAD_CONST" and last.argval is None
    return is_none and last is not None and last.position == current.position


def _text(code: CodeType, instruction: Instruction) -> str:
    """The piece of source that an instruction was compiled from."""
    line, end_line, column, end_column = instruction.position
    if line is None or end_line is None or column is None or end_column is None:
        return ""
    lines = [linecache.getline(code.co_filename, each).encode() for each in range(line, end_line + 1)]
    lines[-1] = lines[-1][:end_column]
    lines[0] = lines[0][column:]
    return b"".join(lines).decode(errors="replace")
