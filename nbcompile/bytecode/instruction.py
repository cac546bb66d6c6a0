"""Instructions, labels and protected ranges: the vocabulary for bytecode as data.

CPython stores a function's body as bytes with numbers that depend on each other: jump distances, indices into tables,
ranges of the exception table. Here each number is replaced by its meaning, so that instructions can be moved, removed
and inserted freely:

    12: FOR_ITER  9          FOR_ITER  target=<Label>
    16: STORE_FAST 2    ->   STORE_FAST argval='i'
    14 to 40 -> 96 [1]       protection=Protection(<Label>, depth=1, lasti=False)

In torch: torch/_dynamo/bytecode_transformation.py (Instruction). Read next:
nbcompile/bytecode/disassemble.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final


@final
class Label:
    """A position in the code. Two labels are one position only if they are one object."""

    __slots__ = ()


class Position(NamedTuple):
    """The source span of an instruction; columns are 0-based UTF-8 bytes."""

    line: int | None = None
    end_line: int | None = None
    column: int | None = None
    end_column: int | None = None


NOWHERE = Position()
"""Position of instructions without source, such as a prologue."""


@dataclass(frozen=True, slots=True)
class Protection:
    """Exception handler of a range of instructions.

    The operand stack is popped to ``depth``, the instruction's own offset is pushed if ``lasti``, then the exception,
    and execution continues at ``target``. The
    depth is kept as CPython's compiler chose it; it cannot be recovered from
    the depth at the first protected instruction.
    """

    target: Label
    depth: int
    lasti: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; ``EXTENDED_ARG`` and ``CACHE`` never appear on their own.

    ``argval`` is what the assembler reads for names, locals, constants and
    jumps (``target``); it then uses only the flag bits of ``arg``, such as the
    low bit of ``LOAD_GLOBAL`` (dialects.FLAG_BITS). For other instructions it uses ``arg``.
    """

    opcode: str
    arg: int | None = None
    argval: object = None
    """A name, a pair of names, a constant, ``"<"``, ``"+="``, the offset jumped to, else ``arg``."""
    target: Label | None = None
    """Target of a jump."""
    label: Label | None = None
    """Set if a jump leads here, or a handler begins here."""
    position: Position = NOWHERE
    protection: Protection | None = None
    offset: int = -1
    """Offset in the code that it was read from, of its EXTENDED_ARG if it has one; -1 if it is new."""

    @property
    def line(self) -> int | None:
        """The line of the user's file."""
        return self.position.line

    def __repr__(self) -> str:
        offset = f"{self.offset:4}" if self.offset >= 0 else "   +"
        return f"<{offset} {self.opcode} {argument_text(self)}>".replace(" >", ">")


def argument_text(instruction: Instruction) -> str:
    """The argument as a listing shows it: ``x``, ``'a constant'``, ``to 96``, ``<``."""
    if instruction.target is not None:
        return f"to {instruction.argval}" if isinstance(instruction.argval, int) else "to a label"
    match instruction.argval:
        case None if instruction.arg is None:
            return ""
        case str() as text if "CONST" not in instruction.opcode:
            return text
        case (str() as first, str() as second) if "FAST" in instruction.opcode:
            return f"{first}, {second}"
        case value:
            return repr(value)


def label_indices(instructions: list[Instruction]) -> dict[Label, int]:
    """The index of the instruction of each label."""
    return {each.label: index for index, each in enumerate(instructions) if each.label is not None}
