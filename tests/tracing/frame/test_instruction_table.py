"""The table from opcode to handler."""

from __future__ import annotations

import opcode

import pytest

from nbcompile.bytecode.dialects import EXPANSIONS
from nbcompile.tracing.frame import interpreter
from nbcompile.tracing.frame.instruction_table import HANDLERS, UNTRACED, handles


def test_every_opcode_of_this_python_is_handled_or_has_a_reason():
    """An opcode without a handler would break the graph, so the table has to be complete."""
    assert interpreter.__name__  # importing it fills the table
    instructions = {name for name in opcode.opmap if not name.startswith(("INSTRUMENTED", "<"))}
    specialised = {name for name in instructions if opcode.opmap[name] >= 256}  # pseudo instructions of the compiler
    missing = instructions - specialised - HANDLERS.keys() - UNTRACED.keys() - EXPANSIONS.keys()
    assert missing <= set(), sorted(missing)


def test_no_opcode_is_both():
    """An opcode has either a handler or a reason, not both."""
    assert HANDLERS.keys() & UNTRACED.keys() == set()
    assert all(UNTRACED.values())


def test_an_opcode_has_one_handler():
    """A second handler for an opcode raises an error."""
    with pytest.raises(AssertionError, match="two handlers"):
        handles("LOAD_FAST")(lambda frame, instruction: None)
