"""Tests for nbcompile.tracing.frame.handlers: every opcode of this Python is traced, or known not to be."""

from __future__ import annotations

import dis

from nbcompile.bytecode.dialects import EXPANSIONS, REAL_OPCODES
from nbcompile.tracing.frame import interpreter
from nbcompile.tracing.frame.instruction_table import HANDLERS, UNTRACED

assert interpreter.control, "which fills the table"


def test_every_opcode_has_a_handler_or_a_reason() -> None:
    """Every opcode has a handler or a reason, and none has both."""
    real = {name for name, number in dis.opmap.items() if number < REAL_OPCODES}
    assert real <= set(HANDLERS) | set(UNTRACED) | set(EXPANSIONS)
    assert not set(UNTRACED) & set(HANDLERS)
    assert not set(EXPANSIONS) & set(HANDLERS)
