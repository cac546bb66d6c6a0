"""Barriers of a simulated block: those of all threads, and those in shared memory that asynchronous copies arrive at.

    bar.sync 0;                                           all threads of the block wait for one another
    mbarrier.init.shared::cta.b64 [%r1], 1;               a barrier in memory: one arrival ends a phase
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 8192;      one arrival; 8192 bytes are still to come
    mbarrier.try_wait.parity.shared.b64 %p1, [%r1], %r2;  true once the phase of this parity has ended

A phase ends when the arrivals and the bytes are complete. A copy arrives as late as is allowed: when a thread waits for
it. It is a fault if a warp reads the bytes of a copy before it has waited for the end of the phase (itself, or before a
``bar.sync``), and if threads wait for a phase that never ends.

In torch: nothing. Read next: nbcompile/gpu/tensor_copies.py
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from nbcompile.gpu.memory import NO_ACTOR, Actors, Fault
from nbcompile.gpu.ptx import Instruction, UnsupportedInstruction
from nbcompile.gpu.state import State
from nbcompile.gpu.values import Array


@dataclass(slots=True)
class TileArrival:
    """A copy of some bytes, on its way to shared memory."""

    at: Array
    """Offsets in the shared memory of all blocks."""
    values: Array
    actors: Actors
    what: str


@dataclass(slots=True)
class MemoryBarrier:
    """One barrier in shared memory."""

    number: int
    expected: int
    """Arrivals of a phase."""
    pending: int
    phase: int = 0
    """Phases that have ended."""
    bytes: int = 0
    """Bytes that were announced in this phase."""
    copies: list[TileArrival] = field(default_factory=list)


@dataclass(slots=True)
class MemoryBarriers:
    """The barriers of all blocks that run, and the phases for which each warp has waited."""

    waited: Array
    """``[warps, barriers]``: number of phases for whose end a warp has waited."""
    source: Array
    """Barrier of the copy that wrote each byte of shared memory last; -1 if a thread wrote it."""
    phase: Array
    """Number of phases for which a warp has to wait before it reads each byte."""
    asleep: Array
    """Threads that wait for the end of a phase."""
    known: dict[tuple[int, int], MemoryBarrier] = field(default_factory=dict)
    """Barriers by block and address."""

    @staticmethod
    def empty(warps: int, shared_bytes: int, threads: int) -> MemoryBarriers:
        """The state of blocks before their first instruction."""
        no_actors, zeros = np.full(shared_bytes, NO_ACTOR, np.int32), np.zeros(shared_bytes, np.int32)
        return MemoryBarriers(np.zeros((warps, 0), np.int64), no_actors, zeros, np.zeros(threads, bool))


def step(state: State, instruction: Instruction, active: Array) -> None:
    """Execute ``mbarrier`` in the forms that Triton writes."""
    match instruction.modifiers[0]:
        case "init":
            for thread, address, count in _operands(state, instruction, active, 0):
                key = int(state.block[thread]), address
                number = state.memory_barriers.waited.shape[1]
                fresh = np.zeros((len(state.memory_barriers.waited), 1), np.int64)
                state.memory_barriers.waited = np.concatenate([state.memory_barriers.waited, fresh], 1)
                state.memory_barriers.known[key] = MemoryBarrier(number, count, count)
        case "inval":
            for thread, address, _ in _operands(state, instruction, active, 0):
                _barrier(state, instruction, thread, address)
                del state.memory_barriers.known[int(state.block[thread]), address]
        case "arrive" if "noComplete" not in instruction.modifiers:
            announces = "expect_tx" in instruction.modifiers
            for thread, address, given in _operands(state, instruction, active, 1):
                barrier = _barrier(state, instruction, thread, address)
                if announces:
                    barrier.bytes += given
                barrier.pending -= 1 if announces or len(instruction.operands) < 3 else given
                _wake(state, int(state.block[thread]))
        case "try_wait" | "test_wait" if "parity" in instruction.modifiers:
            _wait(state, instruction, active)
        case _:
            raise UnsupportedInstruction(f"{instruction.name} in line {instruction.line}")


def _operands(state: State, instruction: Instruction, active: Array, first: int) -> Iterator[tuple[int, int, int]]:
    """Iterate over the threads: number, address, and the number that follows (0 if there is none)."""
    addresses = state.address(instruction.operands[first])
    more = instruction.operands[first + 1 : first + 2]
    given = np.broadcast_to(state.read(more[0], "u32") if more else np.zeros(1, np.uint32), (state.count,))
    for thread in np.nonzero(active)[0]:
        yield int(thread), int(addresses[thread]), int(given[thread])


def _barrier(state: State, instruction: Instruction, thread: int, address: int) -> MemoryBarrier:
    found = state.memory_barriers.known.get((int(state.block[thread]), address))
    if found is None:
        raise Fault(f"{state.describe(instruction)}: there is no mbarrier at {address} of shared memory")
    return found


def barrier_at(state: State, instruction: Instruction, thread: int, address: int) -> MemoryBarrier:
    """The barrier at which a copy arrives; warps that wait for it test it again."""
    _wake(state, int(state.block[thread]))
    return _barrier(state, instruction, thread, address)


def _wake(state: State, block: int) -> None:
    state.memory_barriers.asleep[state.block == block] = False


def _wait(state: State, instruction: Instruction, active: Array) -> None:
    """Threads whose phase has not ended sleep, and execute the instruction again when something has arrived."""
    all_of, is_over = state.memory_barriers, np.zeros(state.count, bool)
    for thread, address, parity in _operands(state, instruction, active, 1):
        barrier = _barrier(state, instruction, thread, address)
        #     phase 0 is in progress: the wait for parity 0 continues, that for parity 1 is over
        if barrier.phase % 2 == parity % 2:
            _end_phase(state, instruction, barrier)
        is_over[thread] = barrier.phase % 2 != parity % 2
        if is_over[thread]:
            all_of.waited[state.warp_of_all[thread], barrier.number] = barrier.phase
    sleeping = active & ~is_over
    if instruction.modifiers[0] == "try_wait":
        # The instruction may also return false after a while; the loop around it repeats it.
        state.at[sleeping] -= 1
        all_of.asleep |= sleeping
        active = is_over
    state.write(instruction.operands[0], is_over, "pred", active)


def _end_phase(state: State, instruction: Instruction, barrier: MemoryBarrier) -> None:
    """Complete the copies, and begin the next phase, if all arrivals and bytes of this phase are there."""
    if barrier.pending > 0:
        return
    # A phase ends when both counts are used up: the threads that were to arrive, and the bytes that were announced.
    size = sum(copy.values.size for copy in barrier.copies)
    if size > barrier.bytes or barrier.pending < 0:
        raise Fault(f"{state.describe(instruction)}: more arrives at an mbarrier than it waits for")
    if size < barrier.bytes:
        return
    barrier.phase += 1
    for copy in barrier.copies:
        state.arriving[copy.at] = False
        state.shared.store(copy.at, copy.values.reshape(-1, 1), copy.actors, copy.what)
        # A warp that has waited for the phase may read the bytes; no barrier of the block is needed.
        if state.shared.check_races:
            state.shared.writer[copy.at] = NO_ACTOR
        state.memory_barriers.source[copy.at], state.memory_barriers.phase[copy.at] = barrier.number, barrier.phase
    barrier.copies, barrier.bytes, barrier.pending = [], 0, barrier.expected


def expect_waited(state: State, at: Array, warps: Array, what: str) -> None:
    """Raise if a warp uses bytes of a copy without having waited for the end of its phase."""
    all_of = state.memory_barriers
    if not all_of.waited.shape[1]:
        return
    source = all_of.source[at]
    late = (source >= 0) & (all_of.waited[warps, source] < all_of.phase[at])
    if late.any():
        raise Fault(f"{what}: a warp has not waited for the mbarrier at which a copy to these bytes arrived")


def note_stores(state: State, at: Array) -> None:
    """Note that threads wrote the bytes, and no copy did since."""
    if state.memory_barriers.waited.shape[1]:
        state.memory_barriers.source[at] = NO_ACTOR


def release(state: State) -> None:
    """Resume the blocks whose threads all wait at a barrier or have returned.

    Raises:
        Fault: they wait at different ones.
    """
    size, end = state.function.threads, len(state.function.instructions)
    waiting, at = state.waiting.reshape(-1, size), state.at.reshape(-1, size)
    free = waiting.any(1) & (waiting | (at == end)).all(1)
    if not free.any():
        return
    # A waiting thread is one past its barrier already. Two different positions are two
    # barriers, where a GPU would hang or continue by chance.
    last = np.where(waiting, at, -1).max(1)
    if (free & (np.where(waiting, at, last[:, None]) != last[:, None]).any(1)).any():
        lines = sorted({state.function.instructions[position - 1].line for position in set(state.at[state.waiting])})
        raise Fault(f"lines {lines}: threads of one block wait at different barriers")
    # The check for races compares these counts: accesses at a lower count are complete.
    state.barriers[np.repeat(free, size) & state.waiting] += 1
    state.waiting[np.repeat(free, size)] = False
    if (waited := state.memory_barriers.waited).shape[1]:
        of_blocks = waited.reshape(len(free), -1, waited.shape[1])
        of_blocks[free] = of_blocks[free].max(1, keepdims=True)


def expect_no_deadlock(state: State) -> None:
    """Raise if no thread runs any more because threads wait for the end of a phase."""
    asleep = np.nonzero(state.memory_barriers.asleep)[0]
    if asleep.size:
        instruction = state.function.instructions[int(state.at[asleep[0]])]
        raise Fault(f"{state.describe(instruction)}: threads wait at an mbarrier for what never arrives")
