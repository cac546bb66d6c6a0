"""GPUs as data: what limits how many threads run at once, and how fast memory is.

    CHIPS["sm_90"].multiprocessors       132

Sources: registers, shared memory, threads and blocks of a multiprocessor are from the table of compute capabilities in
NVIDIA's CUDA programming guide; multiprocessors, bandwidth and clock are from the data sheets of the A100 SXM 80 GB,
the H200 SXM and the HGX B200 (the clock is that at which the cores reach the rate of float32 that the sheet gives). The
time that a load takes is that of 479 cycles on an H100, which Luo and others measured ("Benchmarking and Dissecting the
Nvidia Hopper GPU Architecture via Microbenchmarking", 2024); theirs is 466 cycles on an A100. Of a B200 none was at
hand: it is taken to be as an H100's.

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
    """Of its memory, by the data sheet."""
    cycles_per_second: float
    load_cycles: float
    """From a load of global memory until the value is there, where nothing else waits."""

    @property
    def capability(self) -> int:
        """``90``."""
        return int(self.name.removeprefix("sm_"))


CHIPS = {
    chip.name: chip
    for chip in (
        Chip("sm_80", "A100", 108, 65536, 164 * 1024, 2048, 32, 2.039e12, 1.41e9, 466),
        Chip("sm_90", "H200", 132, 65536, 228 * 1024, 2048, 32, 4.8e12, 1.98e9, 479),
        Chip("sm_100", "B200", 148, 65536, 228 * 1024, 2048, 32, 7.7e12, 1.98e9, 479),
    )
}
