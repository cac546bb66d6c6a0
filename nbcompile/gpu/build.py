"""Machine code of a Triton kernel in this process, for a chip that may be absent, with the figures of ptxas.

    built = build(ASTSource(kernel, {"x": "*fp32", "out": "*fp32"}, {}), CHIPS["sm_90"], {"num_warps": 4})
    built.registers, built.spilled_bytes, built.occupancy(CHIPS["sm_90"])       24, 0, 1.0
    ptx.parse(built.ptx)                                                        what the simulator runs

The program's own kernels are compiled this way, as it has imported them; generated kernels are text, and other
processes compile them (cubins.py).

In torch: torch/_inductor/runtime/triton_heuristics.py. Read next: nbcompile/gpu/ptx.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from nbcompile.gpu import elf
from nbcompile.gpu.chip import Chip
from nbcompile.gpu.machine_code import MachineCode


class CannotBuild(RuntimeError):
    """Reason why a kernel cannot be compiled, in one line."""


def build(source: ASTSource, chip: Chip, options: Mapping[str, Any]) -> MachineCode:
    """Compile.

    Raises:
        CannotBuild: Triton or ptxas fails, or the machine code needs more than a launch of ours provides.
    """
    target = GPUTarget("cuda", chip.capability, 32)
    try:
        # The key of a file in Triton's own cache lacks what a kernel reads from a module (sizes.BLOCK): the file
        # may have been compiled with another value.
        with triton.knobs.compilation.scope():
            triton.knobs.compilation.always_compile = True
            compiled = triton.compile(source, target=target, options=dict(options))
    except Exception as error:
        text = next(iter(str(error).strip().splitlines()), "")
        raise CannotBuild(f"Triton cannot compile it for {chip.name}: {type(error).__name__}: {text}") from error
    if compiled.metadata.num_ctas > 1 or compiled.metadata.global_scratch_size:
        raise CannotBuild("it needs clusters of blocks, or scratch memory of the GPU")
    return machine_code(compiled)


def machine_code(compiled: Any) -> MachineCode:
    """The figures of a result of ``triton.compile``."""
    metadata = compiled.metadata
    return elf.machine_code(
        compiled.asm["ptx"], compiled.asm["cubin"], metadata.name, 32 * metadata.num_warps, metadata.shared
    )
