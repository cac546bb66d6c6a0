"""Copies of tiles by a simulated GPU's tensor memory accelerator (TMA), from and to shared memory.

    tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r1], 0, 64;      a field of a tensor map, in shared memory
    tensormap.cp_fenceproxy....  [%rd1], [%r1], 128;                        the map, copied to global memory
    cp.async.bulk.tensor.2d....  [%r2], [%rd1, {%r3, %r4}], [%r5];          a box of that tensor, to shared memory
    cp.async.bulk.tensor.2d....  [%rd1, {%r3, %r4}], [%r2];                 a box of shared memory, to the tensor

A tensor map has address, sizes, strides, box and swizzle of a tensor; its 128 bytes have no published layout, so they
have one of ours. What is outside of the tensor is 0 where it is loaded, and not stored. A load arrives at an mbarrier
(barriers.py). Not simulated: clusters, im2col, interleaved layouts.

In torch: nothing. Read next: nbcompile/gpu/barriers.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nbcompile.gpu import barriers, copies, matrices
from nbcompile.gpu.memory import Fault
from nbcompile.gpu.ptx import Instruction, UnsupportedInstruction, register_names
from nbcompile.gpu.state import WARP, Copy, State
from nbcompile.gpu.values import Array

MAP_BYTES = 128
WORD, LONG = 4, 8
#     field               offset     elements and their bytes
_FIELDS = {
    "global_address": (0, LONG), "rank": (8, WORD), "elemtype": (12, WORD), "swizzle_mode": (16, WORD),
    "interleave_layout": (20, WORD), "fill_mode": (24, WORD), "global_dim": (28, WORD), "box_dim": (48, WORD),
    "element_stride": (68, WORD), "global_stride": (88, LONG),
}  # fmt: skip
"""Offset and bytes of the fields of a map; those of the dimensions follow one another."""
_SIZES = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 4, 9: 8, 10: 2, 11: 4, 12: 4}
"""Bytes of an element, by the number of its type."""
_SWIZZLES = {0: 16, 1: 32, 2: 64, 3: 128}
"""Bytes of a row in which chunks of 16 bytes are permuted, by the mode."""
ALIGNMENT = 128
"""Alignment of a box in shared memory."""
BOX = 256
"""Largest number of elements of a box along a dimension."""


@dataclass(frozen=True, slots=True)
class TensorMap:
    """The tensor, and the box that one copy moves; innermost dimension first."""

    address: int
    size: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    """Strides in bytes."""
    box: tuple[int, ...]
    swizzle: int


@dataclass(frozen=True, slots=True)
class Box:
    """Addresses of the elements of a box."""

    offsets: Array
    """Offsets in shared memory, from the beginning of the block's."""
    addresses: Array
    """Addresses in global memory."""
    inside: Array
    """True for those that the tensor has."""


def replace(state: State, instruction: Instruction, active: Array) -> None:
    """``tensormap``: a field of a map in shared memory, or a copy of it to global memory."""
    if instruction.modifiers[0] == "cp_fenceproxy":
        _copy_map(state, instruction, active)
        return
    field = instruction.modifiers[2]
    start, width = _FIELDS[field]
    *ordinal, value = instruction.operands[1:]
    at = start + (int(ordinal[0], 0) * width if ordinal else 0)
    threads = np.nonzero(active)[0]
    numbers = np.broadcast_to(state.read(value, f"b{8 * width}"), (state.count,))[threads]
    offsets = state.address(instruction.operands[0])[threads].astype(np.int64) + at
    flat = state.block[threads] * state.shared_bytes + offsets
    content = np.ascontiguousarray(numbers).view(np.uint8).reshape(len(threads), width)
    state.shared.store(flat, content, state.actors(threads), state.describe(instruction))


def _copy_map(state: State, instruction: Instruction, active: Array) -> None:
    """A whole warp copies one map."""
    # One map for each warp, not one for each thread: the first thread's addresses count.
    what, first = state.describe(instruction), np.nonzero(active)[0][::WARP]
    offsets = state.block[first] * state.shared_bytes + state.address(instruction.operands[1])[first].astype(np.int64)
    content = state.shared.load(offsets, MAP_BYTES, state.actors(first), what)
    state.memory.store(state.address(instruction.operands[0])[first], content, state.actors(first), what)


def _read_map(content: Array) -> TensorMap:
    def field(name: str, count: int = 1) -> tuple[int, ...]:
        start, width = _FIELDS[name]
        return tuple(int(number) for number in content[start : start + count * width].copy().view(f"u{width}"))

    rank = field("rank")[0] + 1
    size = _SIZES.get(field("elemtype")[0])
    if size is None or field("interleave_layout")[0] or field("fill_mode")[0]:
        raise UnsupportedInstruction("a tensor map with a type, a layout or a filling that is not simulated")
    if set(field("element_stride", rank)) != {1}:
        raise UnsupportedInstruction("a tensor map whose boxes leave elements out")
    found = TensorMap(
        field("global_address")[0], size, field("global_dim", rank), (size, *field("global_stride", rank - 1)),
        field("box_dim", rank), _SWIZZLES[field("swizzle_mode")[0]],
    )  # fmt: skip
    if found.address % 16 or any(stride % 16 for stride in found.strides[1:]) or found.box[0] * size % 16:
        raise Fault("a tensor map whose address, strides or rows are no multiples of 16 bytes")
    if max(found.box) > BOX or (found.swizzle > 16 and found.box[0] * size > found.swizzle):
        raise Fault("a tensor map whose box is too large")
    return found


def expect_supported(instruction: Instruction) -> None:
    """Raise if a bulk copy has a form that is not simulated."""
    names = instruction.modifiers
    lacks = ("multicast::cluster", "im2col", "tile::gather4", "tile::scatter4", "cta_group::2")
    is_known = names[2:3] == ("tensor",) or names[2:3] in (("commit_group",), ("wait_group",))
    if not is_known or any(name in names for name in lacks):
        raise UnsupportedInstruction(f"the simulator of GPU code lacks {instruction.name}")


def copy(state: State, instruction: Instruction, active: Array) -> None:
    """``cp.async.bulk``: a box of a tensor, one way or the other, by each thread that executes it."""
    expect_supported(instruction)
    match instruction.modifiers[2]:
        case "commit_group":
            state.bulk_committed = state.bulk_committed + active
        case "wait_group":
            # ``wait_group n``: all but the last n groups that a thread has closed are over.
            pending = int(instruction.operands[0])
            state.outgoing = [
                copy
                for copy in state.outgoing
                if not (active[copy.threads] & (copy.group < state.bulk_committed[copy.threads] - pending)).all()
            ]
        case _ if instruction.operands[0].count(","):
            for thread, box, flat in _boxes(state, instruction, active, tensor=0, tile=1):
                _store(state, instruction, thread, box, flat)
        case _:
            for thread, box, flat in _boxes(state, instruction, active, tensor=1, tile=0):
                _load(state, instruction, thread, box, flat)


def _boxes(
    state: State, instruction: Instruction, active: Array, tensor: int, tile: int
) -> Iterator[tuple[Array, Box, Array]]:
    """Iterate over the copies: the thread, the box, and where its bytes are in the shared memory of all blocks."""
    match = re.fullmatch(r"\[\s*([^,]+),\s*(\{[^}]*\})\s*\]", instruction.operands[tensor])
    if match is None:
        raise UnsupportedInstruction(f"{instruction.name} in line {instruction.line}")
    maps = state.address(f"[{match[1]}]")
    coordinates = [np.broadcast_to(state.read(name, "s32"), (state.count,)) for name in register_names(match[2])]
    starts = state.address(instruction.operands[tile])
    for number in np.nonzero(active)[0]:
        thread = np.array([number])
        content = state.memory.load(maps[thread], MAP_BYTES, state.actors(thread), state.describe(instruction))[0]
        found = _read_map(content)
        if len(found.sizes) != len(coordinates):
            raise Fault(f"{state.describe(instruction)}: a tensor of {len(found.sizes)} dimensions")
        box = _box(found, int(starts[number]), [int(values[number]) for values in coordinates])
        if int(starts[number]) % ALIGNMENT or int(box.offsets.max()) + found.size > state.shared_bytes:
            raise Fault(f"{state.describe(instruction)}: a tile past the end of shared memory, or misaligned")
        offsets = box.offsets[:, None] + np.arange(found.size)
        yield thread, box, state.block[number] * state.shared_bytes + offsets


def _box(found: TensorMap, start: int, first: list[int]) -> Box:
    """A box that begins at these coordinates."""
    #     box 64 x 8 of 2 bytes, swizzle 128:  row r has 128 bytes at 128 * r; chunk c of 16 bytes is at c ^ (r % 8)
    positions = np.indices(found.box[::-1]).reshape(len(found.box), -1)[::-1]
    inside, addresses, linear, step = np.ones(positions.shape[1], bool), np.int64(found.address), 0, found.size
    for dimension, position in enumerate(positions):
        coordinate = position + first[dimension]
        inside &= (coordinate >= 0) & (coordinate < found.sizes[dimension])
        addresses = addresses + coordinate * found.strides[dimension]
        linear = linear + position * step
        step *= found.box[dimension]
    offsets = start + np.asarray(linear)
    if found.swizzle > 16:
        # The number of the row of 128 bytes, modulo the chunks of a swizzled row, is combined (exclusive or)
        # with the number of the chunk, so that the rows of one column of the tile are in different banks.
        offsets = offsets ^ ((offsets >> 7) % (found.swizzle // 16) << 4)
    return Box(offsets, np.asarray(addresses), inside)


def _load(state: State, instruction: Instruction, thread: Array, box: Box, flat: Array) -> None:
    what, size = state.describe(instruction), flat.shape[1]
    values = np.zeros(flat.shape, np.uint8)
    if box.inside.any():
        given = box.addresses[box.inside].astype(np.uint64)
        threads = np.repeat(thread, len(given))
        state.count_global(instruction, given, size, threads)
        values[box.inside] = state.memory.load(given, size, state.actors(threads), what)
    # As for any asynchronous copy: the overwritten bytes must not be needed any more.
    threads = np.repeat(thread, len(flat))
    copies.expect_arrived(state, flat, what)
    matrices.expect_not_read(state, box.offsets, size, threads, what)
    _expect_not_outgoing(state, flat, what)
    state.shared.expect_no_reader(flat[:, 0], size, state.actors(threads), what)
    state.arriving[flat] = True
    (address,) = state.address(instruction.operands[2])[thread]
    barrier = barriers.barrier_at(state, instruction, int(thread[0]), int(address))
    actors = state.actors(np.repeat(thread, flat.size))
    barrier.copies.append(barriers.TileArrival(flat.reshape(-1), values.reshape(-1), actors, what))


def _store(state: State, instruction: Instruction, thread: Array, box: Box, flat: Array) -> None:
    what, size = state.describe(instruction), flat.shape[1]
    threads = np.repeat(thread, len(flat))
    copies.expect_arrived(state, flat, what)
    values = state.shared.load(flat[:, 0], size, state.actors(threads), what)
    inside = box.inside
    if inside.any():
        given = box.addresses[inside].astype(np.uint64)
        state.count_global(instruction, given, size, threads[inside])
        state.memory.store(given, values[inside], state.actors(threads[inside]), what)
    # A GPU may read the bytes later, until the group is waited for.
    group = np.broadcast_to(state.bulk_committed[thread], (1,))
    state.outgoing.append(Copy(thread, flat.reshape(-1), values, group, what))


def _expect_not_outgoing(state: State, at: Array, what: str) -> None:
    for copy in state.outgoing:
        if np.isin(at, copy.offsets).any():
            raise Fault(f"{what}: written while a bulk copy reads it, with no cp.async.bulk.wait_group between")


def expect_not_outgoing(state: State, at: Array, what: str) -> None:
    """Raise if a store of a tile reads the bytes that are about to be written."""
    if state.outgoing:
        _expect_not_outgoing(state, at, what)
