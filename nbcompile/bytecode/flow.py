"""Control flow analysis: successors of instructions, stack depth, and liveness of variables.

    y = x * 2          live before:  x         depth 0
    print(y)           live before:  x, y      depth 0
    return x           live before:  x         depth 0

All three analyses include exception handlers: a variable that a handler reads is live wherever its protected range can
raise.

In torch: torch/_dynamo/bytecode_analysis.py. Read next:
nbcompile/bytecode/assemble.py (needs the depth), nbcompile/rewriting/resume.py
(needs liveness)
"""

from __future__ import annotations

import dis
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import CodeType

from nbcompile.bytecode.dialects import CELL_ACCESS, HERE, LEAVES, LOCAL_ACCESS, UNCONDITIONAL_JUMPS, has_argument
from nbcompile.bytecode.instruction import Instruction, Label, Protection, label_indices

INTROSPECTION = frozenset({"locals", "vars", "dir", "eval", "exec"})
"""Builtins that read any variable of the frame which calls them, without naming it."""


# -- where control can go -----------------------------------------------------------------------------


def successors(instructions: list[Instruction]) -> list[tuple[int, ...]]:
    """Indices of the instructions that may run after each one if it does not raise."""
    index_of = label_indices(instructions)
    following = []
    for index, instruction in enumerate(instructions):
        falls_through = instruction.opcode not in LEAVES and instruction.opcode not in UNCONDITIONAL_JUMPS
        after = (index + 1,) if falls_through and index + 1 < len(instructions) else ()
        # The next instruction first, then the jump's target: both, for a conditional jump.
        following.append((*after, index_of[instruction.target]) if instruction.target is not None else after)
    return following


def handlers(instructions: list[Instruction]) -> list[int | None]:
    """Index of the handler of each instruction, which runs if the instruction raises."""
    indices = label_indices(instructions)
    return [None if each.protection is None else indices[each.protection.target] for each in instructions]


def reachable(instructions: list[Instruction], start: int = 0) -> frozenset[int]:
    """The indices of all instructions that may run once ``start`` does."""
    following, handler = successors(instructions), handlers(instructions)
    seen: set[int] = set()
    pending = [start]
    while pending:
        index = pending.pop()
        if index in seen:
            continue
        seen.add(index)
        pending += following[index]
        raised = handler[index]
        if raised is not None:
            pending.append(raised)
    return frozenset(seen)


@dataclass(frozen=True, slots=True)
class Block:
    """A basic block: the instructions ``start`` to ``end`` (exclusive), and indices of the blocks that may follow."""

    start: int
    end: int
    successors: tuple[int, ...]
    handler: int | None
    """The block that runs if one of its instructions raises."""


def blocks(instructions: list[Instruction]) -> list[Block]:
    """Divide the code into basic blocks: where control can enter or leave, and where protection changes."""
    following, handler = successors(instructions), handlers(instructions)
    starts = [
        # A block begins at the code's start, at a label, after a jump, and where the handler changes.
        index
        for index, instruction in enumerate(instructions)
        if index == 0
        or instruction.label is not None
        or following[index - 1] != (index,)
        or handler[index] != handler[index - 1]
    ]
    number = {start: position for position, start in enumerate(starts)}
    ends = [*starts[1:], len(instructions)]
    return [
        Block(start, end, tuple(number[index] for index in following[end - 1]), _number(number, handler[start]))
        for start, end in zip(starts, ends, strict=True)
    ]


def _number(numbers: dict[int, int], index: int | None) -> int | None:
    return None if index is None else numbers[index]


# -- how deep the stack is ----------------------------------------------------------------------------


def stack_effect(instruction: Instruction, jumps: bool = False) -> int:
    """Change of the depth of the stack by the instruction."""
    match instruction.opcode:
        case "RETURN_GENERATOR":
            return 1  # the generator starts with the value sent to it, which dis counts elsewhere
        case "PRECALL":
            return 0  # 3.11: dis counts the removal of the arguments here; CALL does it
        case "CALL" if HERE.version == (3, 11):
            return -(instruction.arg or 0) - 1
        case opcode:
            arg = (instruction.arg or 0) if has_argument(opcode) else None
            return dis.stack_effect(dis.opmap[opcode], arg, jump=jumps)


def stack_depth(instructions: list[Instruction], start: int = 0, depth: int = 0) -> list[int | None]:
    """The depth of the stack before each instruction; None where control never comes from ``start``.

    Args:
        instructions: the code.
        start: index of the instruction to begin with.
        depth: the depth there.
    """
    index_of = label_indices(instructions)
    depths: list[int | None] = [None] * len(instructions)
    pending = [(start, depth)]
    while pending:
        index, here = pending.pop()
        if index >= len(instructions) or depths[index] is not None:
            continue
        depths[index] = here
        instruction = instructions[index]
        if instruction.protection is not None:
            # CPython pops the stack to ``depth``, then pushes the offset of the last instruction (if ``lasti``) and the
            # exception.
            depth_in_handler = instruction.protection.depth + instruction.protection.lasti + 1
            pending.append((index_of[instruction.protection.target], depth_in_handler))
        if instruction.target is not None:
            pending.append((index_of[instruction.target], here + stack_effect(instruction, jumps=True)))
        if instruction.opcode not in LEAVES and instruction.opcode not in UNCONDITIONAL_JUMPS:
            pending.append((index + 1, here + stack_effect(instruction)))
    return depths


def handled_slots(instructions: list[Instruction]) -> list[tuple[int, ...]]:
    """Stack slots of each instruction that save what was being handled outside a handler, lowest first.

    ``PUSH_EXC_INFO`` at the start of a handler makes its exception the current
    one and leaves the one before it on the stack; ``POP_EXCEPT`` restores that one.
    """
    indices = label_indices(instructions)
    depths = stack_depth(instructions)
    slots: list[tuple[int, ...] | None] = [None] * len(instructions)
    pending: list[tuple[int, tuple[int, ...]]] = [(0, ())]
    while pending:
        index, here = pending.pop()
        # Data flow forward along all edges; one visit per instruction is enough, since in CPython's code all paths to
        # an instruction have the same stack.
        depth = depths[index] if index < len(instructions) else None
        if depth is None or slots[index] is not None:
            continue
        slots[index] = here
        instruction = instructions[index]
        if instruction.protection is not None:
            kept = tuple(slot for slot in here if slot < instruction.protection.depth)
            pending.append((indices[instruction.protection.target], kept))
        match instruction.opcode:
            case "PUSH_EXC_INFO":
                here = (*here, depth - 1)
            case "POP_EXCEPT":
                here = here[:-1]
            case "SWAP":
                other = depth - (instruction.arg or 0)
                swapped = {depth - 1: other, other: depth - 1}
                here = tuple(swapped.get(slot, slot) for slot in here)
        if instruction.target is not None:
            pending.append((indices[instruction.target], here))
        if instruction.opcode not in LEAVES and instruction.opcode not in UNCONDITIONAL_JUMPS:
            pending.append((index + 1, here))
    return [slot if slot is not None else () for slot in slots]


def greatest_depth(instructions: list[Instruction]) -> int:
    """The size of the stack that the code needs."""
    depths = stack_depth(instructions)
    after = (
        here + max(stack_effect(instruction), stack_effect(instruction, jumps=True))
        for instruction, here in zip(instructions, depths, strict=True)
        if here is not None
    )
    return max((*(here for here in depths if here is not None), *after), default=0)


# -- which variables are still needed -----------------------------------------------------------------


def live_locals(instructions: list[Instruction], index: int, every: Sequence[str] = ()) -> frozenset[str]:
    """Locals and cells that may still be read once ``index`` runs, handlers included.

    A cell counts as read at each instruction that names it, stores included: another function may read it. Unbinding a
    local counts as a read, because it raises if the local is unbound.

    Args:
        instructions: the code.
        index: where execution continues.
        every: the frame's variables, its first argument first (``co_varnames``).
            They are all live if the code calls ``locals()`` or another builtin that reads its caller's frame;
            ``super()`` reads the first. Default: those that some instruction names, in no order.
    """
    return _liveness(instructions, index) | _read_unnamed(instructions, every)


def _read_unnamed(instructions: list[Instruction], every: Sequence[str]) -> frozenset[str]:
    # In the whole code: one that was loaded before ``index`` may be called after it.
    loaded = {each.argval for each in instructions if each.opcode == "LOAD_GLOBAL"}
    if "super" not in loaded and not loaded & INTROSPECTION:
        return frozenset()
    if not every:
        return frozenset(name for each in instructions for _, name in variable_accesses(each))
    return frozenset(every if loaded & INTROSPECTION else every[:1])


@dataclass(frozen=True, slots=True)
class _Effect:
    """Effect of an instruction or a block on liveness."""

    reads: frozenset[str]
    writes: frozenset[str]


def _liveness(instructions: list[Instruction], index: int) -> frozenset[str]:
    # Backward data flow: live before = (live after - writes) + reads, block by block until nothing changes.
    # The order from last to first block needs few rounds, since information flows backward.
    graph = blocks(instructions)
    effects = [_effect(instructions[block.start : block.end]) for block in graph]
    live: list[frozenset[str]] = [frozenset()] * len(graph)
    changed = True
    while changed:
        changed = False
        for number in reversed(range(len(graph))):
            before = _live_before(graph[number], effects[number], live)
            changed |= before != live[number]
            live[number] = before
    # Inside of the block that holds ``index``, only the instructions from there on count.
    for block in graph:
        if block.start <= index < block.end:
            return _live_before(block, _effect(instructions[index : block.end]), live)
    raise IndexError(index)


def _live_before(block: Block, effect: _Effect, live: list[frozenset[str]]) -> frozenset[str]:
    after = frozenset().union(*(live[each] for each in block.successors))
    raised = frozenset() if block.handler is None else live[block.handler]
    # The handler may run after any instruction of the block: so a store in the block does not end the liveness.
    return (after - effect.writes) | effect.reads | raised


def _effect(instructions: list[Instruction]) -> _Effect:
    reads: set[str] = set()
    writes: set[str] = set()
    for instruction in instructions:
        for access, name in variable_accesses(instruction):
            if access == "write":
                writes.add(name)
            elif name not in writes:  # a read after a write is of the block's own value
                reads.add(name)
    return _Effect(frozenset(reads), frozenset(writes))


def possibly_unbound(code: CodeType, instructions: list[Instruction]) -> frozenset[str]:
    """Cell variables of the code that may be empty where it reads or unbinds them."""
    # Forward data flow: the names that may be unbound before each instruction, joined over all paths to it.
    if not code.co_cellvars:
        return frozenset()
    own = frozenset(code.co_cellvars)
    following, handler = successors(instructions), handlers(instructions)
    unbound: dict[int, frozenset[str]] = {0: own.difference(code.co_varnames)}  # arguments have a value
    pending = [0]
    while pending:
        index = pending.pop()
        reached = dict.fromkeys(following[index], _unbound_after(instructions[index], unbound[index]))
        raised = handler[index]
        if raised is not None:
            # An instruction that raises had no effect: the handler sees the state before it.
            reached[raised] = unbound[index] | reached.get(raised, frozenset())
        for after, names in reached.items():
            if after not in unbound or not names <= unbound[after]:
                unbound[after] = names | unbound.get(after, frozenset())
                pending.append(after)
    accesses = ((instructions[index], names) for index, names in unbound.items())
    read = {
        instruction.argval
        for instruction, names in accesses
        if instruction.opcode in ("LOAD_DEREF", "DELETE_DEREF") and instruction.argval in names
    }
    return own & (read | _unbound_by_others(code))


def _unbound_after(instruction: Instruction, unbound: frozenset[str]) -> frozenset[str]:
    match instruction.opcode:
        case "STORE_DEREF":
            return unbound - {str(instruction.argval)}
        case "DELETE_DEREF":
            return unbound | {str(instruction.argval)}
    return unbound


def _unbound_by_others(code: CodeType) -> set[str]:
    """Names that functions inside the code may ``del``."""
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    own = {each.argval for each in dis.get_instructions(code) if each.opname == "DELETE_DEREF"}
    return own.intersection(code.co_freevars).union(*map(_unbound_by_others, inner))


def variable_accesses(instruction: Instruction) -> list[tuple[str, str]]:
    """``(access, name)`` for each local or cell it names, in order (dialects.LOCAL_ACCESS, or ``cell``)."""
    if instruction.opcode in CELL_ACCESS:
        return [("cell", str(instruction.argval))]
    accesses = LOCAL_ACCESS.get(instruction.opcode, ())
    names = instruction.argval if isinstance(instruction.argval, tuple) else (str(instruction.argval),)
    return list(zip(accesses, names, strict=True)) if accesses else []


def outer_protection(
    instructions: Sequence[Instruction], indices: Mapping[Label, int], protection: Protection | None, height: int
) -> Protection | None:
    """The first of the ranges around a range that began where the stack was at most ``height`` deep."""
    # Ranges that cover each other in a cycle (a handler that protects itself) end the search.
    passed: set[Label] = set()
    while protection is not None and protection.depth > height:
        if protection.target in passed:
            return None
        passed.add(protection.target)
        protection = instructions[indices[protection.target]].protection
    return protection
