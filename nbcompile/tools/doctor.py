"""Check of the machine: what nbcompile can use, and the effect of what is missing.

    ✓ C++ compiler   g++ (Debian 12.2.0)
    ✗ Graphviz       no layout engine: graphs are shown as tables (pip install pygraphviz)

Results are right without any of these: without a C++ compiler, graphs run
through ATen; without a layout engine, an equivalent table is shown.

In torch: torch/utils/collect_env.py. Read next: nbcompile/runtime/toolchain.py
"""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from dataclasses import dataclass

import torch

from nbcompile.fast.disk_cache import storage, writer
from nbcompile.runtime import least_used, store, toolchain
from nbcompile.support import versions
from nbcompile.views import dot

VARIABLES = (
    "TORCH_COMPILE_DEBUG", "TORCH_COMPILE_DEBUG_DIR", "TORCH_COMPILE_DISABLE", "TORCH_COMPILE_DYNAMIC_SOURCES",
    "TORCH_COMPILE_DYNAMIC_VALUES", "TORCH_COMPILE_JOB_ID", "TORCH_COMPILE_UNBACKED_SOURCES",
    "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO", "TORCHDYNAMO_CAPTURE_DYNAMIC_OUTPUT_SHAPE_OPS",
    "TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS", "TORCHDYNAMO_DISABLE", "TORCHDYNAMO_SUPPRESS_ERRORS", "TORCHDYNAMO_VERBOSE",
)  # fmt: skip
"""The variables of torch.compile that nbcompile reads."""
OF_TORCH_COMPILE = ("TORCH_COMPILE_", "TORCH_DYNAMO_", "TORCHDYNAMO_", "TORCHINDUCTOR_", "AOT_")


@dataclass(frozen=True, slots=True)
class Check:
    """One requirement that was checked."""

    what: str
    there: bool
    words: str
    needed: bool = False


def examine() -> tuple[Check, ...]:
    """Check everything that nbcompile needs or can use."""
    stores = (_kernel_store(), _function_store())
    return (_python(), _torch(), _compiler(), _layout(), _triton(), _gpu(), *stores, _environment())


def _environment() -> Check:
    unread = [name for name in sorted(os.environ) if name.startswith(OF_TORCH_COMPILE) and name not in VARIABLES]
    words = (
        f"set, and not read by nbcompile: {', '.join(unread)}"
        if unread
        else "nbcompile reads all variables of torch.compile that are set"
    )
    return Check("environment", not unread, words)


def _python() -> Check:
    inside = versions.PYTHON[0] <= sys.version_info[:2] <= versions.PYTHON[1]
    words = platform.python_version() + ("" if inside else f": only bytecode of {_range(versions.PYTHON)} is supported")
    return Check("Python", inside, words, needed=True)


def _torch() -> Check:
    supported = versions.TORCH[0] <= versions.torch_version() <= versions.TORCH[1]
    words = str(torch.__version__) + ("" if versions.is_tested() else f": tested with {versions.tested()}")
    return Check("torch", supported, words, needed=True)


def _range(versions: tuple[versions.Version, versions.Version]) -> str:
    return " to ".join(".".join(map(str, version)) for version in versions)


def _compiler() -> Check:
    found = toolchain.find()
    if isinstance(found, toolchain.NoCompiler):
        return Check("C++ compiler", there=False, words=f"{found.reason}; graphs run through ATen")
    threads = "" if found.openmp else "; no OpenMP: kernels use one thread"
    return Check("C++ compiler", there=True, words=f"{found.version} {' '.join(found.flags)}{threads}")


def _layout() -> Check:
    if dot.arrange(()) is None:
        words = "no layout engine: graphs are shown as tables (pip install pygraphviz)"
        return Check("Graphviz", there=False, words=words)
    return Check("Graphviz", there=True, words="graphs are drawn")


def _triton() -> Check:
    there = importlib.util.find_spec("triton") is not None
    return Check(
        "Triton", there, "kernels for CUDA" if there else 'no kernels for CUDA (pip install "nbcompile[cuda]")'
    )


def _gpu() -> Check:
    there = torch.cuda.is_available()
    return Check("CUDA device", there, torch.cuda.get_device_name() if there else "none: graphs run on the CPU")


def _kernel_store() -> Check:
    folder = store.directory()
    built = sum(path.suffix == ".so" for path in store.files(folder))
    return Check("kernel store", there=True, words=f"{folder} ({built} built)")


def _function_store() -> Check:
    # Entries are written in the background: those of this process have to be counted as well.
    done = writer.flush(timeout=writer.TIMEOUT)
    folder = storage.directory()
    stored = sum(path.suffix == ".json" for path in store.files(folder))
    words = f"{folder} ({stored} stored, {storage.size() / least_used.MEGABYTE:.1f} MiB)"
    return Check("function store", done, words if done else f"{words}: the disk is busy with entries of this process")
