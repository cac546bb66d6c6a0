"""The settings of Triton that change its machine code: a part of the key of stored machine code.

    settings()             ()                                                nothing is set
    settings()             (("DISABLE_PTXAS_OPT", "1"),)                     in the environment, or by triton.knobs
    worker_environment()   the variables of this process, for one that compiles

Triton reads its settings in the environment, where ``triton.knobs`` puts them, too. So they are known without Triton.

In torch: nothing; torch/_inductor/codecache.py takes Triton's own key. Read next: nbcompile/gpu/cubins.py
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

PREFIXES = (
    "TRITON_", "LLVM_", "MLIR_", "NVPTX_", "PTXAS_", "AMDGCN_", "DISABLE_LLVM_", "DISABLE_MMA_", "DISABLE_PTXAS_",
    "ALLOW_LHS_", "USE_IR_LOC",
)  # fmt: skip
"""Beginnings of the names that Triton reads: those of its own key, and what it takes from options and tools."""
WITHOUT_EFFECT = (
    "TRITON_ALWAYS_COMPILE", "TRITON_CACHE_", "TRITON_CUDACRT_", "TRITON_CUDART_", "TRITON_CUOBJDUMP_", "TRITON_CUPTI_",
    "TRITON_DUMP_DIR", "TRITON_DUMP_PTXAS_LOG", "TRITON_HOME", "TRITON_INTERPRET", "TRITON_KERNEL_DUMP",
    "TRITON_LIBCUDA_", "TRITON_NVDISASM_", "TRITON_PRINT_", "TRITON_PROFILE_", "TRITON_PROTON_", "TRITON_REDIS_",
    "TRITON_REMOTE_", "TRITON_STORE_BINARY_ONLY",
)  # fmt: skip
"""Beginnings of names that say where files are, what is printed, and when something is compiled; not what."""
NOT_FOR_WORKERS = ("TRITON_INTERPRET", "TRITON_STORE_BINARY_ONLY")
"""Variables that would leave a worker without machine code, or without PTX."""
UNSET = ("", "0", "false", "off", "no")
"""Values by which nothing is switched on."""


def settings(environment: Mapping[str, str] = os.environ) -> tuple[tuple[str, str], ...]:
    """The variables that change Triton's machine code, with the state of the files that they name."""
    return tuple(
        (name, _with_state_of_file(value))
        for name, value in sorted(environment.items())
        if name.startswith(PREFIXES) and not name.startswith(WITHOUT_EFFECT)
    )


def _with_state_of_file(value: str) -> str:
    # A tool or a library: another file may be there tomorrow.
    try:
        found = Path(value).stat()
    except (OSError, ValueError):
        return value
    return f"{value} {found.st_size} {found.st_mtime_ns}"


def worker_environment() -> dict[str, str]:
    """The variables with which a process compiles."""
    return {name: value for name, value in os.environ.items() if name not in NOT_FOR_WORKERS}


def always_compile() -> bool:
    """Return whether the user requested that machine code is always compiled anew (``TRITON_ALWAYS_COMPILE``)."""
    return os.environ.get("TRITON_ALWAYS_COMPILE", "").lower() not in UNSET
