"""Assembler: from a list of instructions back to a code object.

    LOAD_FAST  argval='x'             7C 03
    FOR_ITER   target=<Label>    ->   5D 09          (and 90 01 before it, where 9 is too far for a byte)
    Protection(<Label>, 1, True)      14 to 40 -> 96 [1] lasti

Values of arguments become numbers: names and constants are looked up in the tables of the original code object (and
appended where missing), labels become distances, EXTENDED_ARG prefixes and CACHE units are inserted, and the tables of
source positions and of protected ranges are rebuilt.

In torch: torch/_dynamo/bytecode_transformation.py (assemble). Read next:
nbcompile/rewriting/resume.py, which uses it
"""

from __future__ import annotations

import dis
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import CodeType
from typing import Any

from nbcompile.bytecode.dialects import ARGUMENT_KINDS, HERE, SUPERINSTRUCTIONS, is_backward, local_slots
from nbcompile.bytecode.flow import greatest_depth
from nbcompile.bytecode.instruction import Instruction, Position, Protection
from nbcompile.bytecode.opcode_families import flags


def assemble(instructions: Sequence[Instruction], like: CodeType, **changes: Any) -> CodeType:
    """A code object built from ``instructions``, otherwise like ``like``.

    Args:
        instructions: the body; every label that is used must be on an instruction.
        like: the code object with all other attributes.
        **changes: as in ``CodeType.replace``: ``co_name``, ``co_varnames``...
    """
    return assemble_with_offsets(instructions, like, **changes)[0]


def assemble_with_offsets(
    instructions: Sequence[Instruction], like: CodeType, **changes: Any
) -> tuple[CodeType, tuple[int, ...]]:
    """The code object, and for each of ``instructions`` its new offset."""
    tables = _Tables(like, changes)
    # In order: arguments become indices, jumps get distances, bytes are written. A jump's distance depends on the sizes
    # of all instructions between, hence the passes.
    units = [unit for index, each in enumerate(instructions) for unit in tables.units(index, each)]
    offsets = _lay_out(units)
    first_line = changes.get("co_firstlineno", like.co_firstlineno)
    code = like.replace(
        **{
            **changes,
            "co_code": b"".join(_unit_bytes(unit) for unit in units),
            "co_consts": tuple(tables.constants),
            "co_names": tuple(tables.names),
            "co_nlocals": len(tables.varnames),
            # Never less than the original: the interpreter reserves this much for the stack, and too little would
            # corrupt memory.
            "co_stacksize": max(like.co_stacksize, greatest_depth(list(instructions))),
            "co_linetable": _position_table(units, first_line),
            "co_exceptiontable": _exception_table(units, offsets),
        }
    )
    # The first unit of each instruction: in reversed order, the entry of the first unit overwrites those of later ones.
    first_unit = {unit.index: offset for unit, offset in zip(reversed(units), reversed(offsets[:-1]), strict=True)}
    return code, tuple(2 * first_unit[index] for index in range(len(instructions)))


@dataclass(slots=True)
class _EncodedInstruction:
    """One instruction to be written; ``arg`` of a jump is computed last."""

    index: int
    instruction: Instruction
    opcode: str
    arg: int
    prefixes: int = 0
    """EXTENDED_ARG units before it."""

    def size(self) -> int:
        return self.prefixes + 1 + HERE.inline_caches.get(self.opcode, 0)


class _Tables:
    """The tables that arguments are indices into; they only ever grow."""

    def __init__(self, like: CodeType, changes: dict[str, Any]) -> None:
        self.constants: list[object] = list(changes.get("co_consts", like.co_consts))
        self.names: list[str] = list(changes.get("co_names", like.co_names))
        self.varnames: tuple[str, ...] = changes.get("co_varnames", like.co_varnames)
        cellvars = changes.get("co_cellvars", like.co_cellvars)
        freevars = changes.get("co_freevars", like.co_freevars)
        # Kinds of variables share one array of slots:
        #     locals (arguments first) | cells that are no arguments | free variables
        self.slots = local_slots(self.varnames, cellvars, freevars)
        self.same_slots = self.slots == local_slots(like.co_varnames, like.co_cellvars, like.co_freevars)
        # A name may be a local (of an inlined comprehension) and a free variable at once: two slots.
        first = {name: index for index, name in reversed(list(enumerate(self.slots)))}
        last = {name: index for index, name in enumerate(self.slots)}
        self.local_index = first
        self.cell_index = {name: first[name] if name in cellvars else last[name] for name in self.slots}

    def units(self, index: int, instruction: Instruction) -> Iterator[_EncodedInstruction]:
        """The instruction as one unit, or two where a superinstruction cannot hold its indices."""
        kind = ARGUMENT_KINDS.get(instruction.opcode)
        if kind == "locals":
            yield from self._superinstruction(index, instruction)
            return
        opcode = HERE.pseudo.get(instruction.opcode, instruction.opcode)
        arg = self._argument(kind, instruction)
        yield _EncodedInstruction(index, instruction, opcode, arg, _prefixes(arg))

    def _argument(self, kind: str | None, instruction: Instruction) -> int:
        match kind:
            case "jump":
                return 0
            case "name":
                bits = HERE.flag_bits.get(instruction.opcode, 0)
                # The bit for NULL or a method shares the argument with the index: ``index << 1 | flag``.
                index = _index(self.names, instruction.argval, (instruction.arg or 0) >> bits)
                return index << bits | flags(instruction)
            case "constant":
                return _index(self.constants, instruction.argval, instruction.arg)
            case "local" | "cell" if self._still_at(instruction):
                return instruction.arg or 0
            case "local":
                return self.local_index[str(instruction.argval)]
            case "cell":
                return self.cell_index[str(instruction.argval)]
            case _:
                return instruction.arg or 0

    def _still_at(self, instruction: Instruction) -> bool:
        arg = instruction.arg
        return self.same_slots and arg is not None and arg < len(self.slots) and self.slots[arg] == instruction.argval

    def _superinstruction(self, index: int, instruction: Instruction) -> Iterator[_EncodedInstruction]:
        assert isinstance(instruction.argval, tuple)
        first, second = (self.local_index[name] for name in instruction.argval)
        # Two indices of four bits each in one argument; greater ones need two instructions.
        if first < 16 and second < 16:
            yield _EncodedInstruction(index, instruction, instruction.opcode, first << 4 | second)
            return
        for opcode, slot in zip(SUPERINSTRUCTIONS[instruction.opcode], (first, second), strict=True):
            yield _EncodedInstruction(index, instruction, opcode, slot, _prefixes(slot))


def _index(table: list[Any], value: object, hint: int | None) -> int:
    """Index of a value in a table, appended if missing; equal constants of different types are distinct."""
    # The hint is the old index: a constant is kept where it is, so that unchanged code gives unchanged tables.
    if hint is not None and hint < len(table) and table[hint] is value:
        return hint
    for index, entry in enumerate(table):
        if entry is value or (isinstance(value, str) and type(entry) is str and entry == value):
            return index
    table.append(value)
    return len(table) - 1


def _prefixes(arg: int) -> int:
    # One EXTENDED_ARG for each byte above the lowest.
    return max(0, (arg.bit_length() - 1) // 8)


def _lay_out(units: list[_EncodedInstruction]) -> list[int]:
    """Set the distances of jumps; give the position of each unit, and the end, in code units.

    A prefix that a far jump needs moves all later units, which may make another jump far: repeat until no instruction
    grows. None ever shrinks, so this terminates.
    """
    unit_indices = {unit.instruction.label: position for position, unit in reversed(list(enumerate(units)))}
    jumps = [(position, unit) for position, unit in enumerate(units) if unit.instruction.target is not None]
    while True:
        offsets = [0]
        for unit in units:
            offsets.append(offsets[-1] + unit.size())
        grew = False
        for position, unit in jumps:
            # Relative to the end of the jump, where the program counter is when it runs.
            distance = offsets[unit_indices[unit.instruction.target]] - offsets[position + 1]
            assert distance == 0 or (distance < 0) == is_backward(unit.opcode), f"{unit.instruction}: wrong way"
            unit.arg = abs(distance)
            needed = max(unit.prefixes, _prefixes(unit.arg))
            grew |= needed > unit.prefixes
            unit.prefixes = needed
        if not grew:
            return offsets


def _unit_bytes(unit: _EncodedInstruction) -> bytes:
    written = bytearray()
    for prefix in range(unit.prefixes, 0, -1):
        written += bytes((dis.EXTENDED_ARG, unit.arg >> 8 * prefix & 255))
    written += bytes((dis.opmap[unit.opcode], unit.arg & 255))
    return bytes(written) + bytes(2 * HERE.inline_caches.get(unit.opcode, 0))


# -- the exception table ------------------------------------------------------------------------------


def _exception_table(units: list[_EncodedInstruction], offsets: list[int]) -> bytes:
    labelled = zip(reversed(units), reversed(offsets[:-1]), strict=True)
    targets = {unit.instruction.label: offset for unit, offset in labelled}
    written = bytearray()
    start = 0
    # Neighbours with one handler are one row of the table.
    for protection, group in groupby(units, key=lambda unit: unit.instruction.protection):
        size = sum(unit.size() for unit in group)
        if protection is not None:
            written += _exception_entry(start, size, targets[protection.target], protection)
        start += size
    return bytes(written)


def _exception_entry(start: int, size: int, target: int, protection: Protection) -> bytes:
    numbers = (start, size, target, protection.depth << 1 | protection.lasti)
    entry = bytearray(b"".join(_big_endian(number) for number in numbers))
    entry[0] |= 128  # the only byte of an entry with this bit: CPython searches the table by halving
    return bytes(entry)


def _big_endian(number: int) -> bytes:
    """Six bits in each byte, high bits first; bit 64 is set if another byte follows."""
    digits = [number & 63]
    while number := number >> 6:
        digits.append(number & 63 | 64)
    return bytes(reversed(digits))


# -- the table of source positions --------------------------------------------------------------------
# https://github.com/python/cpython/blob/3.11/Objects/locations.md describes the five forms of an entry.

_SHORT_COLUMN, _ONE_LINE, _NO_COLUMNS, _LONG, _NOWHERE = 0, 10, 13, 14, 15


def _position_table(units: list[_EncodedInstruction], first_line: int) -> bytes:
    written = bytearray()
    line = first_line
    for position, group in groupby(units, key=lambda unit: unit.instruction.position):
        size = sum(unit.size() for unit in group)
        # An entry covers at most eight code units.
        while size > 0:
            covered = min(size, 8)
            written += _position_entry(position, covered, line)
            line = line if position.line is None else position.line
            size -= covered
    return bytes(written)


def _short_entry(delta: int, column: int, end_column: int, size: int) -> bytes | None:
    """A short form of a position within one line, ``delta`` lines further; None if the numbers are too large."""
    if delta == 0 and column < 80 and 0 <= end_column - column < 16:
        return _entry(_SHORT_COLUMN + column // 8, size, bytes((column % 8 << 4 | end_column - column,)))
    if 0 <= delta <= 2 and column < 128 and end_column < 128:
        return _entry(_ONE_LINE + delta, size, bytes((column, end_column)))
    return None


def _position_entry(position: Position, size: int, previous_line: int) -> bytes:
    line, end_line, column, end_column = position
    if line is None:
        return _entry(_NOWHERE, size)
    # CPython's location table (PEP 657): the shortest form that holds the position. Short: the same line, columns
    # below 80 and less than 16 apart, in two bytes. One line: at most two lines further, columns below 128. Long:
    # all numbers.
    delta = line - previous_line
    if column is None and end_column is None and end_line in (None, line):
        return _entry(_NO_COLUMNS, size, _signed(delta))
    if column is not None and end_column is not None and end_line == line:
        short = _short_entry(delta, column, end_column, size)
        if short is not None:
            return short
    # Column 0 is stored as 1: zero means that there is none.
    columns = ((each if each is not None else -1) + 1 for each in (column, end_column))
    lines = (end_line if end_line is not None else line) - line
    return _entry(_LONG, size, _signed(delta), _little_endian(lines), *map(_little_endian, columns))


def _entry(form: int, size: int, *rest: bytes) -> bytes:
    return bytes((128 | form << 3 | size - 1,)) + b"".join(rest)


def _signed(number: int) -> bytes:
    return _little_endian(-number << 1 | 1 if number < 0 else number << 1)


def _little_endian(number: int) -> bytes:
    """Six bits in each byte, low bits first; bit 64 is set if another byte follows."""
    written = bytearray()
    while number >= 64:
        written.append(number & 63 | 64)
        number >>= 6
    return bytes(written) + bytes((number,))
