"""The table from opcode to handler, for all versions of CPython at once.

An opcode that means the same in several versions has one handler; what a
version spells differently has an entry of its own (bytecode/dialects.py).

In torch: the method names of InstructionTranslatorBase. Read next: loads.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbcompile.tracing.translator import Handler

HANDLERS: dict[str, Handler] = {}


def instruction(*opcodes: str) -> Callable[[Handler], Handler]:
    """Register the handler of one or several opcodes."""

    def register(function: Handler) -> Handler:
        for opcode in opcodes:
            assert opcode not in HANDLERS, f"{opcode} has two handlers"
            HANDLERS[opcode] = function
        return function

    return register
