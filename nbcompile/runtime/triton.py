"""Triton source text to functions that launch on a GPU.

    functions = load(source)             a module, imported from the kernel store (Triton reads its own source)
    functions.kernel0[(64,)](x, out)

Triton is an extra: where it is not installed this module cannot be imported,
and the driver does not import it.

In torch: torch/_inductor/runtime/triton_heuristics.py. Read next:
nbcompile/codegen/triton.py
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from types import ModuleType

import torch
import triton

from nbcompile.ir.emitted import EmittedKernel, EmittedProgram
from nbcompile.ir.expr import FLOAT8
from nbcompile.runtime import store
from nbcompile.runtime.program import Attribute, PythonWrapper


def load(
    emitted: EmittedProgram, attribute: Attribute | None = None, constants: Mapping[int, object] | None = None
) -> PythonWrapper:
    """The graph as a callable over tensors of a CUDA device (of any device in Triton's interpreter)."""
    module = load_source(emitted.source)
    kernels = {kernel.name: launcher(module, kernel) for kernel in emitted.kernels}
    return PythonWrapper(emitted, kernels, attribute or _no_attribute, constants or {})


def load_source(source: str) -> ModuleType:
    """Generated Triton as a module with its own file."""
    key = store.key_of("triton", source)
    path = store.obtain(key, ".py", lambda draft: _write(draft, source))
    # Triton reads a function's text from its file, so the module needs one.
    specification = importlib.util.spec_from_file_location(f"nbcompile_triton_{key}", path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def _write(path: object, text: str) -> None:
    path.write_text(text)  # type: ignore[attr-defined]


def launcher(module: ModuleType, kernel: EmittedKernel) -> Callable[..., None]:
    """The kernel as a function of its tensors and sizes; an empty grid is not launched."""
    function, grid_of = getattr(module, kernel.name), getattr(module, kernel.name + "_grid")
    tensors = len(kernel.arguments)
    options = (
        compile_options(function.src, kernel.warps, kernel.stages) if isinstance(function, triton.JITFunction) else {}
    )

    def launch(*arguments: object) -> None:
        grid = grid_of(*arguments[tensors:])
        # CUDA rejects an empty grid, which a tensor without elements needs.
        if grid[0] > 0:
            function[grid](*map(_bits, arguments), **options)

    return launch


def _bits(argument: object) -> object:
    """Kernels have elements of 8 floating bits as whole numbers."""
    is_float8 = isinstance(argument, torch.Tensor) and argument.dtype in FLOAT8
    return argument.view(torch.uint8) if is_float8 else argument  # type: ignore[attr-defined]


def compile_options(source: str, warps: int = 4, stages: int = 3) -> dict[str, bool | int]:
    """Options of ``triton.compile``.

    Fused multiply-add is allowed, as in CUDA's own compiler. Device asserts (bounds checks) need debug mode; the checks
    of integer overflow that come with it are switched off. Functions of libdevice keep subnormal numbers.
    """
    checks = "device_assert" in source
    return {
        "enable_fp_fusion": True, "enable_reflect_ftz": False, "debug": checks, "sanitize_overflow": False,
        "num_warps": warps, "num_stages": stages,
    }  # fmt: skip


def _no_attribute(path: str) -> torch.Tensor:
    raise AttributeError(f"the graph has a tensor {path!r} of its own, and load() was given no way to fetch it")
