"""Superinstructions: pairs of instructions that newer versions fold into one, expanded into the two that every version
has.

    3.11                    3.12              3.13
    LOAD_FAST x             LOAD_FAST x       LOAD_FAST_LOAD_FAST x, k
    LOAD_FAST k             LOAD_FAST k
    LOAD_CONST None         RETURN_CONST      RETURN_CONST
    RETURN_VALUE

Later stages see one instruction set. The second half has the odd offset after
the first, which no instruction of the code object has, so that offsets stay
unique: a graph break may be between the halves.

In torch: torch/_dynamo/bytecode_transformation.py (remove_fused_load_store,
remove_binary_store_slice). Read next: nbcompile/tracing/frame/translator.py
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from nbcompile.bytecode.dialects import EXPANSIONS
from nbcompile.bytecode.instruction import Instruction


def expand_superinstructions(instructions: Sequence[Instruction]) -> list[Instruction]:
    """Expand every superinstruction (dialects.EXPANSIONS)."""
    return [half for each in instructions for half in _halves(each)]


def _halves(folded: Instruction) -> Iterator[Instruction]:
    opcodes = EXPANSIONS.get(folded.opcode)
    if opcodes is None:
        yield folded
        return
    for number, opcode in enumerate(opcodes):
        arg, argval = _argument(folded, number, opcode)
        label = folded.label if number == 0 else None
        yield replace(folded, opcode=opcode, arg=arg, argval=argval, label=label, offset=folded.offset + number)


def _argument(folded: Instruction, number: int, opcode: str) -> tuple[int | None, object]:
    match opcode:
        case "LOAD_FAST" | "STORE_FAST":
            assert isinstance(folded.argval, tuple)
            return None, folded.argval[number]
        case "LOAD_CONST":
            return folded.arg, folded.argval
        # ``x[a:b]`` has no step: the slice is built of two operands.
        case "BUILD_SLICE":
            return 2, 2
        case _:
            return None, None
