"""Instructions that are more than arithmetic: moves, memory, branches, barriers, exchanges within a warp.

    STEPS["shfl"](state, instruction, active)      a value from another lane, in the threads that are active

A step changes the state of all threads of the simulated blocks at once. Where an instruction is one formula for each
thread, it is a row of ``arithmetic.RESULTS``; asynchronous copies and products of matrices have modules of their own.

In torch: nothing. Read next: nbcompile/gpu/copies.py
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from nbcompile.gpu import barriers, copies, matrices, tensor_copies
from nbcompile.gpu.memory import Fault
from nbcompile.gpu.ptx import Instruction, UnsupportedInstruction, register_names
from nbcompile.gpu.state import WARP, State
from nbcompile.gpu.values import UNSIGNED, Array, as_bits, as_type, bits_of

PARAMETER_BYTES = 8
"""Distance of parameters in their memory; only code that selects one of several parameters reads it."""
SPACES = {
    "ld": ("global", "shared", "local", "param"), "st": ("global", "shared", "local", "param"),
    "atom": ("global", "shared"), "red": ("global", "shared"),
}  # fmt: skip
"""Memories that the simulator has, by instruction."""


def space_of(instruction: Instruction) -> str:
    """Memory that an instruction names; "generic" if none."""
    spaces = (modifier.partition("::")[0] for modifier in instruction.modifiers)
    return next((space for space in spaces if space in ("global", "shared", "local", "param", "const")), "generic")


def _move(state: State, instruction: Instruction, active: Array) -> None:
    """``mov``: also splits a register into smaller ones, or joins these."""
    target, source = instruction.operands
    kind = instruction.type
    if target.startswith("{"):
        # The first register has the lowest bits, as PTX lists the parts of a vector.
        parts = register_names(target)
        word, width = state.read(source, f"b{bits_of(kind)}"), bits_of(kind) // len(parts)
        for at, part in enumerate(parts):
            shifted = word >> word.dtype.type(at * width)
            state.write(part, shifted.astype(UNSIGNED[width]), f"b{width}", active)
    elif source.startswith("{"):
        parts = register_names(source)
        width, number = bits_of(kind) // len(parts), UNSIGNED[bits_of(kind)]
        word = np.zeros(1, number)
        for at, part in enumerate(parts):
            word = word | (state.read(part, f"b{width}").astype(number) << number(at * width))
        state.write(target, word, f"b{bits_of(kind)}", active)
    else:
        state.write(target, state.read(source, kind), kind, active)


def _parameter(state: State, source: str, kind: str) -> Array:
    """A parameter, or a part of one: one number for all threads, or for each where an address was computed."""
    name, _, offset = source.strip("[] ").partition("+")
    known, mask, number = state.parameters, 2 ** bits_of(kind) - 1, UNSIGNED[bits_of(kind)]
    if name.strip() in known:
        return np.array([known[name.strip()] >> (8 * int(offset or 0)) & mask], number)
    values = [*known.values(), 0]  # a thread that does not run may have any address
    addresses = (min(int(address), PARAMETER_BYTES * len(known)) for address in state.address(source))
    return np.array([values[at // PARAMETER_BYTES] >> (8 * (at % PARAMETER_BYTES)) & mask for at in addresses], number)


def _load(state: State, instruction: Instruction, active: Array) -> None:
    target, source = instruction.operands[:2]
    kind, registers = instruction.type, register_names(target)
    if "param" in instruction.modifiers:
        state.write(registers[0], as_type(_parameter(state, source, kind), kind), kind, active)
        return
    threads = np.nonzero(active)[0]
    size = bits_of(kind) // 8
    found = state.load_bytes(instruction, source, size * len(registers), threads)
    for at, register in enumerate(registers):
        number: Array = np.zeros(state.count, UNSIGNED[8 * size])
        part = np.ascontiguousarray(found[:, at * size : (at + 1) * size])
        number[threads] = part.view(UNSIGNED[8 * size])[:, 0]
        # bfloat16 stays bits: as numbers, all of its NaNs would become one (values.as_bits).
        state.write(
            register,
            number if kind.startswith("bf") else as_type(number, kind),
            f"b{8 * size}" if kind.startswith("bf") else kind,
            active,
        )


def _create_policy(state: State, instruction: Instruction, active: Array) -> None:
    """``createpolicy``: an eviction policy. It has no effect on results, and the simulator has no cache."""
    state.write(instruction.operands[0], np.zeros(1, np.uint64), "b64", active)


def _store(state: State, instruction: Instruction, active: Array) -> None:
    if "param" in instruction.modifiers:
        return  # an argument of the call that reports a failed check
    target, source = instruction.operands[:2]
    threads = np.nonzero(active)[0]
    bits = bits_of(instruction.type)
    parts = []
    for register in register_names(source):
        values = np.broadcast_to(state.read(register, f"b{bits}"), (state.count,))[threads]
        parts.append(np.ascontiguousarray(values).view(np.uint8).reshape(len(threads), bits // 8))
    state.store_bytes(instruction, target, np.concatenate(parts, 1), threads)


_UPDATES: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "exch": lambda _, new: new,
}  # fmt: skip


def _update(state: State, instruction: Instruction, active: Array) -> None:
    """``atom`` and ``red``: threads update one after another, in their order here (on a GPU in any order)."""
    kind, has_result = instruction.type, instruction.opcode == "atom"
    how = next((name for name in instruction.modifiers if name in (*_UPDATES, "cas")), None)
    space = space_of(instruction)
    if how is None or space not in SPACES["atom"]:
        raise UnsupportedInstruction(f"{instruction.name} in line {instruction.line}")
    operands = instruction.operands if has_result else ("_", *instruction.operands)
    threads, size, what = np.nonzero(active)[0], bits_of(kind) // 8, state.describe(instruction)
    targets = register_names(operands[0])
    parts = [register_names(operand) for operand in operands[2:]]  # of a vector (sm_90) several registers
    start = state.address(operands[1])[threads]
    exchange = state.shared.exchange if space == "shared" else state.memory.exchange
    for at in range(len(parts[0])):
        addresses = start + np.uint64(at * size)
        given = [
            np.broadcast_to(as_bits(state.read(names[at], kind), kind), (state.count,))[threads] for names in parts
        ]
        if space == "shared":
            addresses = state.in_shared(instruction, addresses, size, threads)
            state.shared.note_updates(addresses, size, state.actors(threads), what)
        else:
            state.memory.note_updates(addresses, size, state.actors(threads), what)
        before: Array = np.zeros(state.count, UNSIGNED[8 * size])
        # One after the other: threads of one instruction may update the same element, and each has to read what
        # the one before it wrote.
        for thread, address, *values in zip(threads, addresses, *given, strict=True):
            old = exchange(int(address), size, functools.partial(_changed, how, kind, values), what)
            before[thread] = old.view(f"u{size}")[0]
        if targets != ["_"]:
            state.write(targets[at], before, f"b{8 * size}", active)
    if space == "global":
        # A vector is one request, though its elements are updated one by one.
        state.count_global(instruction, start, size * len(parts[0]), threads)


def _changed(how: str, kind: str, values: Sequence[Array], old: Array) -> Array:
    """Bytes of an element after an update."""
    bits = old.view(f"u{old.size}")
    if how == "cas":
        return np.where(bits == values[0], values[1], bits).astype(bits.dtype).view(np.uint8)
    old_number, new = (as_type(part, kind) for part in (bits, np.array([values[0]])))
    return as_bits(_UPDATES[how](old_number, new), kind).view(np.uint8)


def _branch(state: State, instruction: Instruction, active: Array) -> None:
    state.at[active] = state.function.labels[instruction.operands[0]]


def _return(state: State, _: Instruction, active: Array) -> None:
    state.at[active] = len(state.function.instructions)
    barriers.release(state)


def _barrier(state: State, instruction: Instruction, active: Array) -> None:
    """``bar.sync``: threads wait for all others of their block that have not returned."""
    if "warp" not in instruction.modifiers:
        state.waiting |= active
        barriers.release(state)


def _nothing(_: State, __: Instruction, ___: Array) -> None:
    """A fence or a hint: all memory is in order here."""


def _copy(state: State, instruction: Instruction, active: Array) -> None:
    """``cvta``: addresses are the same in all spaces here."""
    state.write(instruction.operands[0], state.read(instruction.operands[1], "u64"), "u64", active)


def _shuffle(state: State, instruction: Instruction, active: Array) -> None:
    """``shfl``: a value from another lane of the warp."""
    lanes = np.arange(WARP)[None]
    value, distance, clamp = (
        np.broadcast_to(state.read(operand, "b32"), (state.count,)).reshape(-1, WARP)
        for operand in instruction.operands[1:4]
    )
    distance, clamp = distance.astype(np.int64), clamp.astype(np.int64)
    #     bits 12 ... 8    bits 4 ... 0
    #     segment          clamp           the mask 16 divides a warp into two segments of 16 lanes
    segment, limit = clamp >> 8 & 31, clamp & 31
    last, first = (lanes & segment) | (limit & ~segment), lanes & segment
    mode = next(name for name in instruction.modifiers if name in ("up", "down", "bfly", "idx"))
    # A sum over a warp takes five exchanges of the mode bfly, after which all lanes have it:
    #     distance 16, 8, 4, 2, 1      lane i adds what lane i ^ distance has
    source = {
        "up": lanes - distance, "down": lanes + distance, "bfly": lanes ^ distance,
        "idx": first | (distance & ~segment),
    }[mode]  # fmt: skip
    inside = source >= last if mode == "up" else source <= last
    # A lane whose source is outside of its segment keeps its own value.
    source = np.where(inside, source, lanes)
    # PTX leaves the value of an inactive lane undefined.
    needed = np.take_along_axis(active.reshape(-1, WARP), source, 1)
    if (active.reshape(-1, WARP) & ~needed).any():
        raise Fault(f"{state.describe(instruction)}: a value of a lane that does not take part")
    target, _, predicate = instruction.operands[0].partition("|")
    state.write(target, np.take_along_axis(value, source, 1).reshape(-1), "b32", active)
    if predicate:
        state.write(predicate, inside.reshape(-1), "pred", active)


_REDUCTIONS: dict[str, Callable[..., Array]] = {
    "add": np.add.reduce, "min": np.minimum.reduce, "max": np.maximum.reduce,
    "and": np.bitwise_and.reduce, "or": np.bitwise_or.reduce, "xor": np.bitwise_xor.reduce,
}  # fmt: skip
# Lanes that are not active take part with the number that changes nothing: all bits set for "and",
# the largest number for "min".
_NEUTRAL: dict[str, Callable[[np.iinfo], int]] = {
    "add": lambda _: 0, "or": lambda _: 0, "xor": lambda _: 0,
    "min": lambda limits: limits.max, "max": lambda limits: limits.min,
    "and": lambda limits: -1 if limits.min else limits.max,
}  # fmt: skip


def _reduce(state: State, instruction: Instruction, active: Array) -> None:
    """``redux``: one value of a whole warp."""
    how = next(name for name in instruction.modifiers if name in _REDUCTIONS)
    value = np.broadcast_to(state.read(instruction.operands[1], instruction.type), (state.count,))
    neutral = value.dtype.type(_NEUTRAL[how](np.iinfo(value.dtype)))
    lanes = np.where(active, value, neutral).reshape(-1, WARP)
    found = np.repeat(_REDUCTIONS[how](lanes, axis=1).astype(value.dtype), WARP)
    state.write(instruction.operands[0], found, instruction.type, active)


def _vote(state: State, instruction: Instruction, active: Array) -> None:
    """``vote``: a predicate of all lanes of a warp."""
    operand = instruction.operands[1]
    value = state.read(operand.removeprefix("!"), "pred") ^ operand.startswith("!")
    lanes = (np.broadcast_to(value, (state.count,)) & active).reshape(-1, WARP)
    # Bit i of the result is the predicate of lane i; a lane that is not active has 0.
    if "ballot" in instruction.modifiers:
        bits = (lanes.astype(np.uint32) << np.arange(WARP, dtype=np.uint32)).sum(1, dtype=np.uint32)
        state.write(instruction.operands[0], np.repeat(bits, WARP), "b32", active)
        return
    # For "all", lanes that are not active count as true.
    everyone = active.reshape(-1, WARP)
    found = lanes.any(1) if "any" in instruction.modifiers else (lanes | ~everyone).all(1)
    state.write(instruction.operands[0], np.repeat(found, WARP), "pred", active)


def _elect(state: State, instruction: Instruction, active: Array) -> None:
    """``elect``: the first active lane of each warp."""
    lanes = active.reshape(-1, WARP)
    first = np.repeat(lanes.argmax(1), WARP)
    target, _, predicate = instruction.operands[0].partition("|")
    state.write(target, first.astype(np.uint32), "b32", active)
    state.write(predicate, np.tile(np.arange(WARP), len(lanes)) == first, "pred", active)


def _copy_asynchronously(state: State, instruction: Instruction, active: Array) -> None:
    """``cp.async``, and ``cp.async.bulk``."""
    (tensor_copies if "bulk" in instruction.modifiers else copies).copy(state, instruction, active)


def _fail(state: State, instruction: Instruction, active: Array) -> None:
    """A check of the program's own: an index that is out of bounds."""
    # Triton puts the texts of a kernel's checks into the module. Which one a call names is an
    # address that was stored as a parameter; with one text there is no doubt.
    messages = [
        content.rstrip(b"\0").decode() for name, content in state.function.constants.items() if "Message" in name
    ]
    count = int(active.sum())
    text = messages[0] if len(set(messages)) == 1 else "a check failed"
    raise Fault(f"line {instruction.line}: {text}, in {count} thread{'' if count == 1 else 's'}")


STEPS: dict[str, Callable[[State, Instruction, Array], None]] = {
    "mov": _move, "ld": _load, "st": _store, "atom": _update, "red": _update, "bra": _branch, "ret": _return,
    "exit": _return, "bar": _barrier, "barrier": _barrier, "membar": _nothing, "fence": _nothing, "prefetch": _nothing,
    "cvta": _copy, "shfl": _shuffle, "redux": _reduce, "vote": _vote, "cp": _copy_asynchronously,
    "elect": _elect, "mbarrier": barriers.step, "tensormap": tensor_copies.replace,
    "createpolicy": _create_policy, "call": _fail, "trap": _fail, **matrices.STEPS,
}  # fmt: skip
"""Instructions that change more than one register of their own thread."""
