"""Asynchronous copies of a simulated GPU, from global to shared memory: they arrive when they are waited for.

    cp.async.cg.shared.global [%r1], [%rd1], 16, %r2;      %r2 bytes are read, the rest of the 16 is zero
    cp.async.commit_group;                                 what was begun since the last one is a group
    cp.async.wait_group 2;                                 all but the last two groups have arrived

A copy arrives as late as is allowed: it is a fault if a thread reads or overwrites its bytes before it has waited.
Other threads need a barrier after the wait, as for any store.

In torch: nothing. Read next: nbcompile/gpu/simulator.py
"""

from __future__ import annotations

import numpy as np

from nbcompile.gpu import barriers, matrices
from nbcompile.gpu.memory import Fault
from nbcompile.gpu.ptx import Instruction, UnsupportedInstruction
from nbcompile.gpu.state import Copy, State
from nbcompile.gpu.values import Array


def copy(blocks: State, instruction: Instruction, active: Array) -> None:
    """Execute ``cp.async`` in any form but ``cp.async.bulk`` (tensor maps)."""
    names = instruction.modifiers
    if names[:1] != ("async",) or "bulk" in names or "mbarrier" in names:
        raise UnsupportedInstruction(f"{instruction.name} in line {instruction.line}")
    match names[1]:
        case "commit_group":
            blocks.committed = blocks.committed + active
        case "wait_group":
            arrive(blocks, int(instruction.operands[0]), active)
        case "wait_all":
            blocks.committed = blocks.committed + active
            arrive(blocks, 0, active)
        case _:
            _begin(blocks, instruction, active)


def _begin(blocks: State, instruction: Instruction, active: Array) -> None:
    target, source, size, *given = instruction.operands
    width, what = int(size, 0), blocks.describe(instruction)
    threads = np.nonzero(active)[0]
    # The fourth operand is the number of bytes that are read. Triton masks a load by 0 of them, and
    # the rest of the copy is zeros: all or nothing.
    real = np.full(len(threads), width)
    if given:
        real = np.broadcast_to(blocks.read(given[0], "u32"), (blocks.count,))[threads].astype(np.int64)
    if ((real != 0) & (real != width)).any():
        raise UnsupportedInstruction(f"{instruction.name} in line {instruction.line}: a part of a copy")
    values = np.zeros((len(threads), width), np.uint8)
    if (real > 0).any():
        # Read now, and written to shared memory when it arrives. A GPU may read later: a store of
        # another warp in between is found as a race.
        values[real > 0] = blocks.load_from_global(instruction, source, width, threads[real > 0])
    offsets = blocks.in_shared(instruction, blocks.address(target)[threads], width, threads)
    bytes_ = offsets[:, None] + np.arange(width)
    # The bytes must not be needed any more. They are if an earlier copy to them has not arrived, if a product
    # reads them, or if a thread has read them and no barrier came since.
    expect_arrived(blocks, bytes_, what)
    matrices.expect_not_read(blocks, offsets - blocks.block[threads] * blocks.shared_bytes, width, threads, what)
    blocks.shared.expect_no_reader(offsets, width, blocks.actors(threads), what)
    blocks.arriving[bytes_] = True
    blocks.copies.append(Copy(threads, offsets, values, blocks.committed[threads], what))


def arrive(blocks: State, pending: int, active: Array) -> None:
    """Store what the active threads have begun, but for their last ``pending`` groups."""
    left = []
    for begun in blocks.copies:
        #     committed 5, wait_group 2      groups 0, 1, 2 have arrived; 3 and 4 are on their way
        # Each thread counts its own groups, and waits for its own copies only.
        done = active[begun.threads] & (begun.group < blocks.committed[begun.threads] - pending)
        if done.any():
            offsets, values = begun.offsets[done], begun.values[done]
            at = offsets[:, None] + np.arange(values.shape[1])
            blocks.arriving[at] = False
            barriers.note_stores(blocks, at)
            blocks.shared.store(offsets, values, blocks.actors(begun.threads[done]), begun.what)
        if not done.all():
            keep = ~done
            left.append(
                Copy(begun.threads[keep], begun.offsets[keep], begun.values[keep], begun.group[keep], begun.what)
            )
    blocks.copies = left


def expect_arrived(blocks: State, at: Array, what: str) -> None:
    """Raise if a copy to these bytes is in flight without a wait."""
    if blocks.arriving[at].any():
        raise Fault(f"{what}: an asynchronous copy to these bytes is not waited for")
