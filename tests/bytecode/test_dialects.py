"""Tests for nbcompile.bytecode.dialects: the tables compared with the running interpreter."""

from __future__ import annotations

import dis
import opcode as cpython
import sys

from nbcompile.bytecode import dialects
from nbcompile.bytecode.disassemble import disassemble


def test_inline_caches() -> None:
    """The table of cache units equals the interpreter's."""
    entries = cpython._inline_cache_entries  # type: ignore[attr-defined]
    if isinstance(entries, dict):
        own = {name: count for name, count in entries.items() if count}
    else:
        own = {dis.opname[number]: count for number, count in enumerate(entries) if count}
    assert dialects.HERE.inline_caches == own


def test_every_version_has_a_dialect() -> None:
    """3.11, 3.12 and 3.13 have dialects, and the running version's is used."""
    assert set(dialects.DIALECTS) == {(3, 11), (3, 12), (3, 13)}
    assert dialects.HERE.version == sys.version_info[:2]


def test_jumps() -> None:
    """The jumps of the table are the interpreter's, except pseudo-instructions."""
    own = {dis.opname[number] for number in dis.hasjrel if number < dialects.REAL_OPCODES}
    assert own == {name for name in dialects.JUMPS if name in dis.opmap}


def test_binary_operators() -> None:
    """The table of operators has the interpreter's order."""
    assert [symbol for _, symbol in cpython._nb_ops] == list(dialects.BINARY_OPERATORS)  # type: ignore[attr-defined]


def test_intrinsics() -> None:
    """The numbers of CALL_INTRINSIC_1 and _2 have the interpreter's meaning."""
    ours = {"PRINT_EXPR": "PRINT", "CALL_INTRINSIC_1": "_intrinsic_1_descs", "CALL_INTRINSIC_2": "_intrinsic_2_descs"}
    for opcode, names in dialects.INTRINSICS.items():
        for number, own in list(enumerate(getattr(cpython, ours[opcode], ())))[1:]:
            assert own == f"INTRINSIC_{ours.get(names[number], names[number])}"


def test_conditions() -> None:
    """A conditional jump has a condition, in either direction."""

    def branch(x: object) -> int:
        if x is None:
            return 1
        while x:
            x = x.next  # type: ignore[attr-defined]
        return 2

    found = {dialects.jump_condition(each.opcode) for each in disassemble(branch.__code__)} - {None}
    assert found <= {"true", "false", "none", "not_none"}
    assert found & {"none", "not_none"}
    assert found & {"true", "false"}
