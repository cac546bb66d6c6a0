"""GPUs as data: the limits of resident threads, and the rates of memory and arithmetic.

    CHIPS["sm_90"].multiprocessors       132

The figures were written down from memory of these sources, and not yet checked against them:

    registers, shared memory, threads and blocks     NVIDIA's CUDA programming guide, compute capabilities
    multiprocessors, bandwidth, clock, operations    data sheets of the A100 SXM 80 GB, the H200 SXM, the HGX B200
    cycles of a load (H100, A100)                    Luo and others, "Benchmarking and Dissecting the Nvidia Hopper GPU
                                                     Architecture via Microbenchmarking", 2024

The clock is that at which the cores reach the sheet's rate of float32. A load of a B200 is assumed to take as many
cycles as one of an H100.

In torch: torch/_inductor/runtime/hints.py (DeviceProperties). Read next: nbcompile/gpu/build.py
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chip:
    """One kind of GPU."""

    name: str
    """Instruction set, as ptxas names it: ``sm_90``."""
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
    """Memory bandwidth, by the data sheet."""
    cycles_per_second: float
    load_cycles: float
    """Latency of a load from global memory without contention."""
    matrix_flops: float
    """Operations a second of the matrix units, on factors of 16 bits without sparsity; half as many on tf32."""
    float_flops: float
    """Operations a second in float32, without matrix units."""
    block_shared_bytes: int
    """Shared memory of a block, at most."""

    @property
    def capability(self) -> int:
        """``90``."""
        return int(self.name.removeprefix("sm_"))


# Two relations hold in each row, and are a check of it:
#     float_flops          = multiprocessors * lanes * 2 * clock      128 lanes, 64 on sm_80
#     block_shared_bytes   = shared_bytes - 1 KiB                  the system's own, for each block
CHIPS = {
    chip.name: chip
    for chip in (
        Chip("sm_80", "A100", 108, 65536, 164 * 1024, 2048, 32, 2.039e12, 1.41e9, 466, 312e12, 19.5e12, 163 * 1024),
        Chip("sm_90", "H200", 132, 65536, 228 * 1024, 2048, 32, 4.8e12, 1.98e9, 479, 989e12, 67e12, 227 * 1024),
        Chip("sm_100", "B200", 148, 65536, 228 * 1024, 2048, 32, 7.7e12, 1.98e9, 479, 2250e12, 75e12, 227 * 1024),
    )
}
