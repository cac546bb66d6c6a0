"""Predicted time of a kernel on an absent GPU: a model over the counts of the simulator.

    sum of 4 Mi numbers by one block      4096 rounds, each waits for a load      latency: 1.0 ms
    the same by 1024 blocks               16.8 MB from memory                     memory: 6.9 us

A launch takes as long as the slowest of four, and the launch itself:

    memory      all sectors moved, at the rate that memory reaches
    issue       all instructions of all warps, four a cycle in each multiprocessor that has a block
    matrix      all multiplications of matrix instructions, by the multiprocessors that have a block
    latency     the waits of one warp for what it loads, times the rounds in which the blocks come

Blocks come in rounds where more are launched than fit. Caches are left out: what is read twice is moved twice. The
least possible time (the roofline) is that of moving each byte once, by a GPU that is full. Both are a model: no
predicted time was compared with a measured one yet.

In torch: torch/_inductor/analysis/profile_analysis.py, of a profile of a real run. Read next: nbcompile/gpu/costs.py
"""

from __future__ import annotations

from dataclasses import dataclass

from nbcompile.gpu.chip import Chip
from nbcompile.gpu.costs import SECTOR, Costs
from nbcompile.gpu.machine_code import MachineCode

REACHED = 0.9
"""Achievable fraction of the memory bandwidth: an H200 was measured to copy 4.3 of its 4.8 TB/s."""
MATRIX_REACHED = 0.8
"""Achievable fraction of the matrix units' rate: cuBLAS was measured to reach 788 of the H200's 989 TFLOP/s."""
LAUNCH_SECONDS = 2e-6
"""Launch overhead, between the starts of two empty kernels: some microseconds, by NVIDIA's best practices guide."""
SCHEDULERS = 4
"""Instructions that a multiprocessor begins in a cycle, of different warps."""
DEPENDENT_CYCLES = 4
"""Cycles from an instruction of a warp to the next, which usually depends on it."""


@dataclass(frozen=True, slots=True)
class Times:
    """Times of one launch, in seconds."""

    memory: float
    issue: float
    latency: float
    matrix: float
    least: float
    """Lower bound of the time for the memory traffic and the multiplications."""

    @property
    def predicted(self) -> float:
        """Predicted time of the launch."""
        return LAUNCH_SECONDS + max(self.memory, self.issue, self.latency, self.matrix)

    @property
    def roofline(self) -> float:
        """Least possible time, by the roofline model."""
        return LAUNCH_SECONDS + self.least

    @property
    def limit(self) -> str:
        """Largest of the four times: the bottleneck."""
        return max(("memory", "issue", "latency", "matrix"), key=lambda name: getattr(self, name))


def times(built: MachineCode, blocks: int, costs: Costs, waits: int, touched: int, chip: Chip) -> Times:
    """The model.

    Args:
        built: The kernel.
        blocks: How many were launched.
        costs: Of all its lines.
        waits: How often a warp waited for what it had loaded.
        touched: Bytes that are read or written, each counted once.
        chip: Where it would run.
    """
    #     blocks     300 of 128 threads, 4 resident on each of 132 multiprocessors
    #     resident   528: all at once; latency counts one round
    #     busy       132: every multiprocessor has work
    bandwidth = REACHED * chip.bytes_per_second
    resident = chip.multiprocessors * max(built.resident_blocks(chip), 1)
    busy = max(min(blocks, chip.multiprocessors), 1)
    # The instructions of one warp are the average: a launch waits for its longest warp, which may have more.
    warps = max(blocks * -(-built.threads // 32), 1)
    serial = waits * chip.load_cycles + costs.instructions / warps * DEPENDENT_CYCLES
    return Times(
        costs.sectors * SECTOR / bandwidth,
        costs.instructions / (busy * SCHEDULERS * chip.cycles_per_second),
        # Not rounded up: a block starts when another one ends, not when a whole round does.
        max(blocks / resident, 1.0) * serial / chip.cycles_per_second,
        # A multiplication comes with an addition: data sheets count two operations.
        2 * costs.matrix_work / (MATRIX_REACHED * chip.matrix_flops * busy / chip.multiprocessors),
        max(touched / bandwidth, 2 * costs.matrix_work / chip.matrix_flops),
    )
