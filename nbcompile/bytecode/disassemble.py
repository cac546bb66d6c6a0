"""Disassembler: from a code object to a list of instructions.

    >>> def f(x):
    ...     return x + 1
    >>> [each.opcode for each in disassemble(f.__code__)][:3]
    ['RESUME', 'LOAD_FAST', 'LOAD_CONST']
    >>> disassemble(f.__code__)[2].argval
    1

``EXTENDED_ARG`` prefixes and ``CACHE`` units are folded into the instruction
they belong to, jump distances become labels, and each instruction carries the
range of the exception table that contains it.

In torch: torch/_dynamo/bytecode_transformation.py (cleaned_instructions). Read
next: nbcompile/bytecode/assemble.py, the way back
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import NamedTuple

from nbcompile.bytecode.dialects import (
    ARGUMENT_KINDS,
    BINARY_OPERATORS,
    HERE,
    has_argument,
    is_backward,
    local_slots,
)
from nbcompile.bytecode.instruction import Instruction, Label, Position, Protection


@dataclass(frozen=True, slots=True)
class ExceptionEntry:
    """One row of the exception table; offsets in bytes, ``end`` exclusive."""

    start: int
    end: int
    target: int
    depth: int
    lasti: bool


def disassemble(code: CodeType) -> list[Instruction]:
    """Disassemble a code object; ``assemble(disassemble(code), code)`` is equivalent to it."""
    units = list(_units(code.co_code))
    # Jumps and handlers lead to offsets. Labels replace offsets, so that instructions can be inserted.
    table = exception_table(code)
    jumps = {unit.offset: _jump_target(unit) for unit in units if ARGUMENT_KINDS.get(unit.opcode) == "jump"}
    labels = {offset: Label() for offset in (*jumps.values(), *(entry.target for entry in table))}
    protections = _Protections(table, labels)
    positions = list(code.co_positions())
    values = _Arguments(code, units)
    instructions = []
    for index, unit in enumerate(units):
        opcode = values.spelling(index)
        target = jumps.get(unit.offset)
        instructions.append(
            Instruction(
                opcode,
                unit.arg if has_argument(unit.opcode) else None,
                target if target is not None else values.meaning(opcode, unit.arg),
                None if target is None else labels[target],
                labels.get(unit.start),
                Position._make(positions[unit.offset // 2]),
                protections.at(unit.start),
                unit.start,
            )
        )
    return instructions


class _StoredInstruction(NamedTuple):
    """One instruction as stored: ``start`` is its first EXTENDED_ARG, ``end`` follows its last CACHE."""

    opcode: str
    arg: int
    start: int
    offset: int
    end: int


def _units(bytecode: bytes) -> Iterator[_StoredInstruction]:
    caches = HERE.inline_caches
    start = offset = arg = 0
    while offset < len(bytecode):
        opcode = dis.opname[bytecode[offset]]
        # EXTENDED_ARG is no instruction of its own: it shifts its byte into the argument of the next one.
        arg = arg << 8 | bytecode[offset + 1]
        if opcode == "EXTENDED_ARG":
            offset += 2
            continue
        end = offset + 2 + 2 * caches.get(opcode, 0)
        yield _StoredInstruction(opcode, arg, start, offset, end)
        start, offset, arg = end, end, 0


def _jump_target(unit: _StoredInstruction) -> int:
    return unit.end + 2 * (-unit.arg if is_backward(unit.opcode) else unit.arg)


class _Arguments:
    """Values of the instructions' arguments in one code object."""

    def __init__(self, code: CodeType, units: list[_StoredInstruction]) -> None:
        self.code = code
        self.units = units
        self.slots = local_slots(code.co_varnames, code.co_cellvars, code.co_freevars)

    def spelling(self, index: int) -> str:
        """The opcode, with the loads of a cell itself distinguished where the version does not (3.13)."""
        unit = self.units[index]
        if unit.opcode == HERE.pseudo.get("LOAD_CLOSURE") and self._loads_cell(index):
            return "LOAD_CLOSURE"
        return unit.opcode

    def _loads_cell(self, index: int) -> bool:
        slot = self.units[index].arg
        # Slots behind the locals are cells only. A local that is also a cell (a captured argument) shares its slot.
        if slot >= len(self.code.co_varnames):
            return True
        if self.slots[slot] not in self.code.co_cellvars:
            return False
        # An argument that is a cell too; inlined comprehensions may use its slot for a plain local.
        # A cell is loaded only to build a closure: LOAD_FAST+, BUILD_TUPLE, LOAD_CONST <code>.
        following = index
        while self.units[following].opcode == "LOAD_FAST":
            following += 1
        built, function = self.units[following], self.units[following + 1]
        return (
            built.opcode == "BUILD_TUPLE"
            and function.opcode == "LOAD_CONST"
            and isinstance(self.code.co_consts[function.arg], CodeType)
        )

    def meaning(self, opcode: str, arg: int) -> object:
        """The argument as a value."""
        match ARGUMENT_KINDS.get(opcode):
            # The lowest bits are flags; the index is above them.
            case "name":
                return self.code.co_names[arg >> HERE.flag_bits.get(opcode, 0)]
            case "constant":
                return self.code.co_consts[arg]
            case "local" | "cell":
                return self.slots[arg]
            case "locals":
                return self.slots[arg >> 4], self.slots[arg & 15]
            case "compare":
                return dis.cmp_op[arg >> HERE.compare_shift]
            case "operator":
                return BINARY_OPERATORS[arg]
            case _:
                return arg if has_argument(opcode) else None


class _Protections:
    """The exception table, queried in ascending order of offsets."""

    def __init__(self, table: list[ExceptionEntry], labels: dict[int, Label]) -> None:
        self.rows = [(entry, Protection(labels[entry.target], entry.depth, entry.lasti)) for entry in table]
        self.next = 0

    def at(self, offset: int) -> Protection | None:
        """The range that protects an offset."""
        # Rows are sorted and do not overlap, and offsets are queried in order, so only the next row is needed.
        while self.next < len(self.rows) and self.rows[self.next][0].end <= offset:
            self.next += 1
        if self.next < len(self.rows) and self.rows[self.next][0].start <= offset:
            return self.rows[self.next][1]
        return None


def exception_table(code: CodeType) -> list[ExceptionEntry]:
    """Decode ``co_exceptiontable``: rows of four numbers, six bits a byte, high bits first."""
    numbers = list(_numbers(code.co_exceptiontable))
    rows = zip(*[iter(numbers)] * 4, strict=True)
    return [
        ExceptionEntry(2 * start, 2 * (start + length), 2 * target, depth_and_lasti >> 1, bool(depth_and_lasti & 1))
        for start, length, target, depth_and_lasti in rows
    ]


def _numbers(data: bytes) -> Iterator[int]:
    value = 0
    for byte in data:
        value = value << 6 | byte & 63
        if not byte & 64:
            yield value
            value = 0
