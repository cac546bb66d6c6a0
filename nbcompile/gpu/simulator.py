"""Simulator of compiled GPU kernels on the CPU: all threads of many blocks at once, instruction by instruction.

    memory = GlobalMemory()
    ran = run(ptx.parse(text), grid=16, arguments=[memory.copy_in(x, "x"), memory.copy_in(out, "out")], memory=memory)
    out                            now holds what the kernel wrote
    ran.lines[229].coalescing      least sectors / sectors of line 229 of the generated module: 1.0 is best
    ran.waits                      how often a warp waited for what it loads

Each register is a NumPy array with one element a thread. Threads that take different branches wait for one another: the
instruction at the lowest address runs first, in the threads that have reached it. What stops a GPU is a ``Fault``: an
access outside of all tensors, misaligned, a race, different barriers for the threads of a block, a failed check.

In torch: nothing. Read next: nbcompile/gpu/steps.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nbcompile.gpu import arithmetic, matrices, tensor_copies
from nbcompile.gpu.blocks import Blocks, GridLaunch
from nbcompile.gpu.costs import Costs
from nbcompile.gpu.memory import GlobalMemory
from nbcompile.gpu.ptx import Function, UnsupportedInstruction
from nbcompile.gpu.steps import SPACES, STEPS, space_of
from nbcompile.gpu.values import Array

# A register of 32 bits is then an array of 1 MiB: large enough that NumPy's own cost for each
# instruction hardly counts, small enough for some hundred registers.
THREADS_AT_ONCE = 1 << 18
# The check for races keeps two numbers of 64 bits for each of these bytes (memory.Bytes).
SHARED_AT_ONCE = 1 << 26
"""Bytes of shared memory of all blocks that run at once."""


@dataclass(slots=True)
class Simulation:
    """Result of a simulated launch."""

    lines: dict[int, Costs] = field(default_factory=dict)
    """Costs by the line of the generated module."""
    waits: int = 0
    """Largest number of dependent waits for global memory in one warp: uses of values loaded and not used before."""
    writing: list[Array] = field(default_factory=list)
    """Flags of the warps that wrote something, one part of the grid after the other."""


def run(
    function: Function, grid: int, arguments: Sequence[int], memory: GlobalMemory, shared_bytes: int = 0,
    width: int = 0, height: int = 0, idle: Sequence[Array] = (), chosen: Array | None = None,
) -> Simulation:  # fmt: skip
    """Launch a kernel.

    Args:
        function: The kernel.
        grid: Number of blocks.
        arguments: Addresses from ``memory.copy_in``, and whole numbers; missing parameters are 0.
        memory: Holds the tensors; they are written to in place.
        shared_bytes: Of shared memory for each block.
        width: Blocks in a row, where the grid has two dimensions; 0 if it has one.
        height: Rows of a layer, where it has three; 0 if it has fewer.
        chosen: Numbers of the blocks that are run; None: all.
        idle: Warps that write nothing, in the order of ``Simulation.writing``: what they read is in no race.

    Raises:
        Fault: an error that would stop a GPU, or a race that would make its result depend on chance.
        UnsupportedInstruction: the simulator lacks it.
    """
    ran = Simulation()
    width = width or grid
    height = height or grid // max(width, 1)
    shape = (width, height, grid // max(width * height, 1))
    constants = {name: _location(memory, name, content) for name, content in function.constants.items()}
    launch = GridLaunch(function, shape, arguments, memory, shared_bytes, constants)
    at_once = blocks_at_once(function, shared_bytes)
    # An instruction is computed in all threads and written in the active ones, so what inactive
    # threads hold may overflow or divide by zero; and arithmetic raises nothing on a GPU.
    with np.errstate(all="ignore"):
        numbers = np.arange(grid) if chosen is None else chosen
        for first in range(0, len(numbers), at_once):
            blocks = numbers[first : first + at_once]
            part = Blocks(launch, blocks, ran.lines)
            part.idle = idle[len(ran.writing)] if idle else None
            part.run()
            ran.writing.append(part.writing)
            ran.waits = max(ran.waits, part.waits)
    return ran


def blocks_at_once(function: Function, shared_bytes: int) -> int:
    """Number of blocks of a kernel that are simulated at once."""
    return max(1, min(THREADS_AT_ONCE // function.threads, SHARED_AT_ONCE // max(shared_bytes, 1)))


def expect_supported(function: Function) -> None:
    """Look through a kernel before anything of it runs.

    Raises:
        UnsupportedInstruction: the simulator lacks one of its instructions.
    """
    for instruction in function.instructions:
        known = instruction.opcode in STEPS or instruction.opcode in arithmetic.RESULTS
        in_space = (
            instruction.opcode not in ("ld", "st", "atom", "red") or space_of(instruction) in SPACES[instruction.opcode]
        )
        if instruction.opcode in ("mma", "wgmma"):
            matrices.expect_supported(instruction)
        if instruction.opcode == "cp" and "bulk" in instruction.modifiers:
            tensor_copies.expect_supported(instruction)
        elif instruction.opcode == "cp":
            known = instruction.modifiers[0] == "async"
        if not known or not in_space:
            raise UnsupportedInstruction(f"the simulator of GPU code lacks {instruction.name}")


def _location(memory: GlobalMemory, name: str, content: bytes) -> int:
    return memory.starts[memory.copy_bytes_in(np.frombuffer(content, np.uint8), name)]
