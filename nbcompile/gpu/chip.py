"""GPUs as data: what limits how many threads run at once, and how fast memory is.

    CHIPS["sm_90"].multiprocessors       132

Figures are NVIDIA's, from the CUDA programming guide (table of compute capabilities) and the data sheets; bandwidth of
sm_90 is what an H200 was measured to reach when it copies.

In torch: torch/_inductor/runtime/hints.py (DeviceProperties). Read next: nbcompile/gpu/build.py
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chip:
    """One kind of GPU."""

    name: str
    """As ptxas names its instruction set: ``sm_90``."""
    product: str
    multiprocessors: int
    registers: int
    """32-bit registers of a multiprocessor."""
    shared_bytes: int
    """Shared memory of a multiprocessor."""
    threads: int
    """Resident threads of a multiprocessor, at most."""
    blocks: int
    """Resident blocks of a multiprocessor, at most."""
    bytes_per_second: float
    """Of its memory."""

    @property
    def capability(self) -> int:
        """``90``."""
        return int(self.name.removeprefix("sm_"))


CHIPS = {
    chip.name: chip
    for chip in (
        Chip("sm_80", "A100", 108, 65536, 164 * 1024, 2048, 32, 1.9e12),
        Chip("sm_90", "H200", 132, 65536, 228 * 1024, 2048, 32, 4.3e12),
        Chip("sm_100", "B200", 148, 65536, 228 * 1024, 2048, 32, 7.7e12),
    )
}
