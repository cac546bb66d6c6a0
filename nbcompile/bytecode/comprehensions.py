"""Inlined comprehensions (PEP 709): their first and last instruction.

3.11 makes a function of each comprehension and calls it. From 3.12 on it is a
loop in the middle of the function, around which its variables are saved:

    [i * 2 for i in xs]      GET_ITER
                             LOAD_FAST_AND_CLEAR i     begins here: the iterator is on the stack
                             SWAP; BUILD_LIST; SWAP
                             FOR_ITER ...              the loop
                             END_FOR                   ended here: saved values, and the list
                             SWAP; STORE_FAST i

In torch: torch/_dynamo/comprehension_graph_break.py. Read next:
nbcompile/tracing/frame/break_points.py, which leaves such a loop to Python as a whole
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nbcompile.bytecode.dialects import HERE
from nbcompile.bytecode.flow import variable_accesses
from nbcompile.bytecode.instruction import Instruction, label_indices

BUILDERS = frozenset({"BUILD_LIST", "BUILD_MAP"})
"""Instructions that begin the result of a list or dict comprehension; as in torch, not that of a set."""


@dataclass(frozen=True, slots=True)
class Comprehension:
    """The instructions ``start`` to ``end`` (exclusive), and the variables that are saved before the loop."""

    start: int
    end: int
    saved: tuple[str, ...]


def comprehension_at(instructions: Sequence[Instruction], start: int) -> Comprehension | None:
    """The inlined comprehension that begins with this instruction; None if none, or if it binds other locals."""
    opcodes = [each.opcode for each in instructions[start : start + 1]]
    if opcodes != ["LOAD_FAST_AND_CLEAR"] or instructions[start - 1].opcode != "GET_ITER":
        return None
    after = start
    while instructions[after].opcode in ("LOAD_FAST_AND_CLEAR", "MAKE_CELL"):
        after += 1
    saved = tuple(str(each.argval) for each in instructions[start:after] if each.opcode == "LOAD_FAST_AND_CLEAR")
    swap, build, _, loop = instructions[after : after + 4]
    if (swap.opcode, swap.arg, loop.opcode) != ("SWAP", len(saved) + 1, "FOR_ITER") or build.opcode not in BUILDERS:
        return None
    assert loop.target is not None
    end = label_indices(list(instructions))[loop.target] + HERE.loop_exit_skips
    found = Comprehension(start, end, saved)
    return None if _binds_more(instructions, found) else found


def _binds_more(instructions: Sequence[Instruction], found: Comprehension) -> bool:
    """Return whether it binds a local of the function, with ``:=``."""
    inside = instructions[found.start : found.end]
    own = {str(each.argval) for each in inside if each.opcode == "LOAD_FAST_AND_CLEAR"}
    return any(access == "write" and name not in own for each in inside for access, name in variable_accesses(each))
