"""Costs of each line of generated code on a GPU, counted during simulation.

    32 threads of a warp load neighbours            128 bytes in 4 sectors: coalescing 1.0
    32 threads load every 32nd number               128 bytes in 32 sectors: coalescing 0.125

Global memory is moved in sectors of 32 bytes, for one warp at a time. Shared memory has 32 banks of 4 bytes; what
a warp accesses in one bank at different addresses takes one pass each.

In torch: nothing; Nsight Compute measures the same on a GPU. Read next: nbcompile/codegen/triton.py
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from nbcompile.gpu.values import Array

SECTOR = 32
BANKS = 32
BANK_BYTES = 4
NAMES = ("instructions", "requests", "sectors", "least_sectors", "passes", "least_passes", "matrix_work")
"""Counts of a line."""


@dataclass(slots=True)
class Costs:
    """Costs of one line, over all blocks of a launch."""

    line: int
    """Line of the generated module; 0 if unknown."""
    instructions: int = 0
    """Number of executed instructions, by whole warps."""
    requests: int = 0
    """Accesses to global memory, by whole warps."""
    sectors: int = 0
    """Number of sectors that are moved for the accesses."""
    least_sectors: int = 0
    """Least number of sectors that would hold the bytes used."""
    passes: int = 0
    """Over the banks of shared memory."""
    least_passes: int = 0
    matrix_work: int = 0
    """Multiplications of matrix instructions; one of tf32 counts twice, as it takes twice as long as one of 16 bits."""

    @property
    def coalescing(self) -> float:
        """Fraction of the bytes moved that was used."""
        return self.least_sectors / self.sectors if self.sectors else 1.0

    def count_global(self, addresses: Array, width: int, warps: Array) -> None:
        """One access of ``width`` bytes by each of some threads."""
        # Lanes that read one address get it by one broadcast: it counts once.
        starts = _distinct(warps, addresses.astype(np.int64))
        self.requests += len(np.unique(warps))
        # An access is aligned to its width, which divides a sector, so it never touches two.
        self.sectors += len(_distinct(starts[:, 0], starts[:, 1] // SECTOR))
        _, lanes = np.unique(starts[:, 0], return_counts=True)
        self.least_sectors += int((-(-lanes * width // SECTOR)).sum())

    def count_shared(self, addresses: Array, width: int, warps: Array) -> None:
        """Count an access to shared memory; wide accesses take one pass per 128 bytes."""
        #     a column of float32[32, 32]      words 0, 32, 64: all in bank 0  32 passes
        #     the same with rows of 33 words    words 0, 33, 66: banks 0, 1, 2  1 pass
        # That is why tiles in shared memory are padded or swizzled.
        words = np.concatenate(
            [_distinct(warps, addresses.astype(np.int64) // BANK_BYTES + at) for at in range(-(-width // BANK_BYTES))]
        )
        # One word that several lanes read is broadcast: only different words of a bank need several passes.
        words = np.unique(words, axis=0)
        of_bank, counts = np.unique(np.stack([words[:, 0], words[:, 1] % BANKS], 1), axis=0, return_counts=True)
        # of_bank is sorted by warp: a new warp begins where the first column changes. The bank with
        # the most words decides how many passes its warp takes.
        order = np.flatnonzero(np.r_[True, of_bank[1:, 0] != of_bank[:-1, 0]])
        self.passes += int(np.maximum.reduceat(counts, order).sum())
        _, of_warp = np.unique(words[:, 0], return_counts=True)
        self.least_passes += int((-(-of_warp // BANKS)).sum())


def _distinct(warps: Array, numbers: Array) -> Array:
    return np.unique(np.stack([warps, numbers], 1), axis=0)


def scaled(costs: Costs, by: float) -> Costs:
    """Costs of all programs, of those of a sample."""
    return Costs(costs.line, *(round(getattr(costs, name) * by) for name in NAMES))


def total(costs: Iterable[Costs]) -> Costs:
    """Sum of the costs of several lines; its line is 0."""
    found = list(costs)
    return Costs(0, *(sum(getattr(line, name) for line in found) for name in NAMES))
