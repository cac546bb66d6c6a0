"""Families of opcodes, and the flags in their arguments."""

from __future__ import annotations

import dis

from nbcompile.bytecode import dialects, opcode_families
from nbcompile.bytecode.disassemble import disassemble


def test_families_cover_every_opcode_once() -> None:
    """Each opcode of this interpreter belongs to exactly one family."""
    real = {name for name, number in dis.opmap.items() if number < dialects.REAL_OPCODES}
    covered = [name for family in opcode_families.FAMILIES.values() for name in family]
    assert len(covered) == len(set(covered))
    assert real <= set(covered)


def test_flags() -> None:
    """A called global pushes NULL, and a called attribute is a method, on every version."""

    def call(x: list[int]) -> object:
        return print(x.copy(), x.__len__)

    read = disassemble(call.__code__)
    assert [opcode_families.pushes_null(each) for each in read if each.opcode == "LOAD_GLOBAL"] == [True]
    loads = [each for each in read if each.opcode in ("LOAD_ATTR", "LOAD_METHOD")]
    assert [(each.argval, opcode_families.loads_method(each)) for each in loads] == [("copy", True), ("__len__", False)]
