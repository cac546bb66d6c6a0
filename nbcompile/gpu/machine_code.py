"""Machine code of a kernel as a value, separate from the compiler: a process that launches does not import Triton.

    built.registers, built.spilled_bytes, built.occupancy(CHIPS["sm_90"])       24, 0, 1.0

In torch: torch/_inductor/runtime/triton_heuristics.py. Read next: nbcompile/gpu/build.py
"""

from __future__ import annotations

from dataclasses import dataclass

from nbcompile.gpu.chip import Chip

POINTER_BYTES = 16
"""Bytes: alignment of every pointer."""


@dataclass(frozen=True, slots=True)
class MachineCode:
    """A kernel for one chip."""

    ptx: str
    cubin: bytes
    threads: int
    """Threads of a block."""
    shared_bytes: int
    """Shared memory of a block."""
    registers: int
    """Registers of a thread."""
    spilled_bytes: int
    """Bytes that each thread spills to local memory, for lack of registers."""

    def resident_blocks(self, chip: Chip) -> int:
        """Number of blocks that are resident on a multiprocessor at once."""
        # Registers are allocated by eight for each thread. The KiB of shared memory that the system
        # takes for each block is left out.
        of_block = self.threads * max(-(-self.registers // 8) * 8, 1)
        return min(
            chip.registers // of_block,
            chip.threads // self.threads,
            chip.shared_bytes // self.shared_bytes if self.shared_bytes else chip.blocks,
            chip.blocks,
        )

    def occupancy(self, chip: Chip) -> float:
        """Fraction of a multiprocessor's threads that registers and shared memory allow."""
        return self.resident_blocks(chip) * self.threads / chip.threads
