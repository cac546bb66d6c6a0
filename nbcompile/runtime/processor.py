"""Instruction sets of kernels: those of this processor, or fewer, as ``config`` says.

    flags("avx2")        ("-mavx2", "-mfma", "-mf16c")
    lacking("avx512")    "avx512f"        what this processor lacks; "" where kernels of that set run

Everything that depends on the processor is a setting, so that one machine can show what another would do: the
instruction set here, the library for matrix products (``config.products``), the number of compilers
(``config.compile_threads``) and of threads (``torch.set_num_threads``). Cache sizes are not queried: the constants in
nbcompile/codegen/machine_model.py are the same on every machine.

In torch: torch/_inductor/cpu_vec_isa.py (ATEN_CPU_CAPABILITY, config.cpp.simdlen). Read next:
nbcompile/runtime/toolchain.py
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nbcompile import config

NATIVE = "native"


@dataclass(frozen=True, slots=True)
class InstructionSet:
    """Compiler flags of an instruction set, and the processor features it needs, as named in /proc/cpuinfo."""

    flags: tuple[str, ...]
    needs: tuple[str, ...] = ()


INSTRUCTION_SETS = {
    "avx512_bf16": InstructionSet(
        ("-mavx512f", "-mavx512vl", "-mavx512dq", "-mavx512bw", "-mavx512bf16", "-mavx2", "-mfma", "-mf16c"),
        ("avx512f", "avx512vl", "avx512dq", "avx512bw", "avx512_bf16", "avx2", "fma", "f16c"),
    ),
    "avx512": InstructionSet(
        ("-mavx512f", "-mavx512vl", "-mavx512dq", "-mavx512bw", "-mavx2", "-mfma", "-mf16c"),
        ("avx512f", "avx512vl", "avx512dq", "avx512bw", "avx2", "fma", "f16c"),
    ),
    "avx2": InstructionSet(("-mavx2", "-mfma", "-mf16c"), ("avx2", "fma", "f16c")),
    "avx": InstructionSet(("-mavx",), ("avx",)),
    "sse2": InstructionSet((), ("sse2",)),
    "generic": InstructionSet(("-DNB_GENERIC",)),
}
"""Instruction sets of x86; ``generic`` has no flags, and is that of other processors. ``native`` is not listed."""


def flags(name: str) -> tuple[str, ...] | None:
    """Flags that replace ``-march=native``; None to keep it."""
    return None if name == NATIVE else INSTRUCTION_SETS[name].flags


def lacking(name: str) -> str:
    """The first feature that kernels of an instruction set need and this processor lacks; "" if it has all."""
    if name == NATIVE:
        return ""
    return next((need for need in INSTRUCTION_SETS[name].needs if need not in features()), "")


def runnable() -> Sequence[str]:
    """The instruction sets whose kernels run here, without ``native``."""
    return [name for name in INSTRUCTION_SETS if not lacking(name)]


def multiplies_by_onednn() -> bool:
    """Return whether large float32 matrix products go to oneDNN, by the setting and by the processor."""
    if not any(needs <= features() for needs in ONEDNN_NEEDS):
        return False
    return config.products == "onednn" or (config.products == "" and maker() != "GenuineIntel")


ONEDNN_NEEDS = (frozenset({"avx512bw", "avx512vl", "avx512dq"}), frozenset({"avx_ne_convert"}))
"""torch's function for it rejects other processors: see mkldnn_matmul in aten/src/ATen/native/mkldnn/Matmul.cpp."""


def features() -> frozenset[str]:
    """Features of this processor, as named in /proc/cpuinfo; hardly any if it cannot be read."""
    description = _description()
    # The line is ``flags`` on x86 and ``Features`` on ARM. SSE2 is part of x86-64 by definition.
    baseline = "sse2" if platform.machine() in ("x86_64", "AMD64") else ""
    return frozenset((description.get("flags") or description.get("Features") or baseline).split())


def maker() -> str:
    """Vendor of this processor: GenuineIntel, AuthenticAMD; "" if unknown."""
    return _description().get("vendor_id", "")


@functools.cache
def _description() -> dict[str, str]:
    """Entry of the first core in /proc/cpuinfo."""
    try:
        # All cores of a machine are taken to be alike.
        first, _, _ = Path("/proc/cpuinfo").read_text().partition("\n\n")
    except OSError:
        return {}
    lines = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}
