"""Machine code of a Triton kernel, for a chip that may be absent, with the figures of ptxas.

    built = build(module.kernel0, {"p0": "*fp32", "p1": "*fp32"}, CHIPS["sm_90"])
    built.registers, built.spilled_bytes, built.occupancy(CHIPS["sm_90"])       24, 0, 1.0
    ptx.parse(built.ptx)                                                        what the simulator runs

Pointers are promised to be multiples of 16 bytes, as those of torch's allocator are: without the promise loads are not
vectorised.

In torch: torch/_inductor/runtime/triton_heuristics.py. Read next: nbcompile/gpu/ptx.py
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from nbcompile.codegen.machine_model import MOST_WARPS
from nbcompile.gpu import elf
from nbcompile.gpu.chip import Chip
from nbcompile.gpu.machine_code import MachineCode
from nbcompile.runtime.triton import compile_options

POINTER_BYTES = 16
"""Bytes: alignment of every pointer."""


class CannotBuild(RuntimeError):
    """Reason why a kernel cannot be compiled, in one line."""


class NoTools(CannotBuild):
    """No kernel has: ptxas, or what reads its results, is missing."""


def build(function: Any, signature: Mapping[str, str], chip: Chip, warps: int = 4, stages: int = 3) -> MachineCode:
    """Compile.

    Args:
        function: What ``@triton.jit`` made.
        signature: Its argument types in Triton's notation.
        chip: For which; none need be here.
        warps: Of 32 threads each, that one program has; it gets more if registers spill.
        stages: Rounds of a loop whose loads are begun ahead.

    Raises:
        CannotBuild: Triton or ptxas refuses, or is not there.
    """
    try:
        built = _build(function, signature, chip, warps, stages)
        while built.spilled_bytes and warps < MOST_WARPS:
            warps *= 2  # of the same elements, each of more threads holds fewer; but each may have fewer registers, too
            built = min(built, _build(function, signature, chip, warps, stages), key=lambda found: found.spilled_bytes)
        return built
    except (OSError, subprocess.SubprocessError) as error:
        raise NoTools(f"the tools of CUDA that come with Triton cannot be run: {_first_line(error)}") from error
    except Exception as error:
        text = _first_line(error)
        if text.startswith("Cannot find"):
            raise NoTools(f"{text}, which comes with Triton") from error
        raise CannotBuild(f"Triton cannot compile it for {chip.name}: {type(error).__name__}: {text}") from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "")


def _build(function: Any, signature: Mapping[str, str], chip: Chip, warps: int, stages: int) -> MachineCode:
    aligned = {
        (at,): [["tt.divisibility", POINTER_BYTES]]
        for at, kind in enumerate(signature.values())
        if kind.startswith("*")
    }
    # Vector loads (ld.global.v4) need an address that is a multiple of their 16 bytes.
    source = ASTSource(function, dict(signature), {}, aligned)
    compiled = triton.compile(
        source, target=GPUTarget("cuda", chip.capability, 32), options=compile_options(function.src, warps, stages)
    )
    return machine_code(compiled)


def machine_code(compiled: Any) -> MachineCode:
    """The figures of what ``triton.compile`` returned."""
    cubin = compiled.asm["cubin"]
    return MachineCode(
        compiled.asm["ptx"],
        cubin,
        32 * compiled.metadata.num_warps,
        compiled.metadata.shared,
        elf.registers(cubin),
        elf.spilled_bytes(cubin, compiled.metadata.name),
    )
