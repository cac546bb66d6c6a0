"""GPU kernels as Python callables, and for launcher.c: prepared launches through NVIDIA's driver library.

    gpu = open_launcher(compiler)                        GpuLauncher(driver=13000, devices=1), or NoGpu("...")
    kernel = gpu.prepare(emitted_kernel, image, device=0, unaligned=...)
    kernel(x, out)                                       launched on torch's current stream

The library is found by the system's loader, or named by NBCOMPILE_LIBCUDA. Errors of the driver become the exceptions
that eager mode raises: ``torch.OutOfMemoryError`` where there is no memory, ``torch.AcceleratorError`` for the rest;
the text says what was done, to which kernel, of which line.

In torch: torch/_inductor/runtime/static_triton_launcher.py. Read next: nbcompile/runtime/gpu_launcher.cpp
"""

from __future__ import annotations

import functools
import gc
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

import torch

from nbcompile.ir.emitted import EmittedKernel
from nbcompile.runtime import extension, launcher
from nbcompile.runtime.compiler_processes import BuildError
from nbcompile.runtime.launcher import NoLauncher
from nbcompile.runtime.toolchain import Compiler

SOURCE = Path(__file__).with_name("gpu_launcher.cpp")
VARIABLE = "NBCOMPILE_LIBCUDA"
LIBRARY = "libcuda.so.1"
LEAST_DRIVER = 12000
"""Version of the driver API: CUDA 12, as Triton's machine code requires."""
OUT_OF_MEMORY = 2
#     700 illegal address     714 error of the hardware's stack    717 invalid address space
#     702 timeout             715 illegal instruction              718 invalid program counter
#     710 assertion           716 misaligned address               719 failed    720 too large
OF_KERNELS = frozenset((700, 702, 710, 714, 715, 716, 717, 718, 719, 720))
"""Errors of a kernel that ran: reported by the next call of the driver."""
# Also: the driver is shutting down (4), the device is not available (46), memory has an error that
# cannot be corrected (214), and anything unknown (999).
LOST = OF_KERNELS | {4, 46, 214, 999}
"""Errors after which the process cannot use the device any more."""


RESULT = "_nbcompile_cu_result"
"""Attribute of an exception: the number that the driver returned."""


class Image(NamedTuple):
    """Machine code of one kernel, ready to load."""

    code: bytes
    entry: str
    """Name of the function."""
    threads: int
    shared: int
    """Bytes of shared memory of a block."""
    parameters: int
    """Number of parameters, hidden ones included, of 8 bytes each."""
    scratch: int = 0
    """Bytes of memory that each program needs for itself: the first hidden parameter is their address."""


@dataclass(frozen=True, slots=True)
class NoGpu:
    """Reason why nothing can be launched."""

    reason: str


class DriverError(RuntimeError):
    """An error of the driver for which eager mode has no class of its own."""


@dataclass(slots=True)
class GpuLauncher:
    """The launcher, with the driver loaded."""

    module: ModuleType
    driver: int
    """Version of the driver API."""
    devices: int
    locations: dict[str, str] = field(default_factory=dict)
    """Descriptions of kernels (operators, lines) by their unique names, for the texts of errors."""

    def capability(self, device: int) -> tuple[int, int, int]:
        """Major and minor compute capability, number of multiprocessors."""
        found: tuple[int, int, int] = self.module.capability(device)
        return found

    def prepare(
        self, kernel: EmittedKernel, image: Image, device: int, unaligned: Callable[[], Image], location: str = "",
        debug: bool = False,
    ) -> Callable[..., None]:  # fmt: skip
        """A kernel, loaded for a device, as a callable of its tensors and sizes.

        Args:
            kernel: What it is.
            image: Its machine code for pointers that are multiples of 16.
            device: Number of the GPU.
            unaligned: Makes the machine code for other pointers, when some are given first.
            location: For the texts of errors: the operators, and the line of the user's program.
            debug: Wait after every launch, so that an error is that kernel's.
        """
        name = f"{kernel.name}: {location}" if location else kernel.name
        launch: Callable[..., None] = self.module.make_kernel(
            name,
            device,
            len(kernel.arguments),
            len(kernel.sizes),
            debug,
            grid_function(kernel),
            tuple(image),
            unaligned,
        )
        return launch


def grid_function(kernel: EmittedKernel) -> Callable[..., int]:
    """The number of blocks as a function of the sizes."""
    namespace: dict[str, Any] = {}
    # Compiled once: a launch evaluates it with the sizes of the call.
    exec(f"def grid({', '.join(kernel.sizes)}):\n    return {kernel.grid}", namespace)
    grid: Callable[..., int] = namespace["grid"]
    return grid


def raise_error(result: int, text: str, action: str, kernel: str | None) -> NoReturn:
    """Raise the exception of a CUresult; debug mode, which waits before and after a kernel, has the action "run".

    Raises:
        torch.OutOfMemoryError, torch.AcceleratorError, DriverError: as eager mode does.
    """
    error = _error(result, text, action, kernel)
    setattr(error, RESULT, result)
    raise error


def _error(result: int, text: str, action: str, kernel: str | None) -> Exception:
    text = text or "an error that the driver has no text for"
    what = f"CUDA driver error {result} ({text})"
    where = f" to {action}" + (f" {kernel}" if kernel else "")
    # torch.OutOfMemoryError is what programs catch to continue with a smaller batch.
    if result == OUT_OF_MEMORY:
        return torch.OutOfMemoryError(f"CUDA out of memory: {what}{where}")
    # After such an error each further call of the driver fails, too: the user should restart, and not search further.
    ended = " The process cannot use this GPU any more." if result in LOST else ""
    when = (
        ' Launches are asynchronous: an earlier kernel may have failed; options={"debug": True} waits after each, and '
        "names it."
        if result in OF_KERNELS and action != "run"
        else ""
    )
    return _accelerator_error()(f"CUDA error: {text}. {what}{where}.{when}{ended}")


def _accelerator_error() -> type[Exception]:
    return getattr(torch, "AcceleratorError", None) or DriverError


def errors() -> tuple[type[Exception], ...]:
    """Exception classes of the driver's errors."""
    return _accelerator_error(), torch.OutOfMemoryError


def free_memory() -> None:
    """Free unused memory: Python's reference cycles, and the cache of torch's allocator."""
    # Only the garbage collector frees tensors in reference cycles.
    gc.collect()
    for release in memory_holders:
        release()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


memory_holders: list[Callable[[], None]] = []
"""Functions that are called if no memory is left, before the one other attempt."""


def open_launcher(compiler: Compiler) -> GpuLauncher | NoGpu:
    """The launcher on the driver that is here, or the reason why there is none."""
    return _open(compiler, os.environ.get(VARIABLE) or LIBRARY)


@functools.lru_cache(maxsize=8)
@extension.first_call_in_its_own_thread
def _open(compiler: Compiler, path: str) -> GpuLauncher | NoGpu:
    in_c = launcher.extension_module(compiler)
    if isinstance(in_c, NoLauncher):
        return NoGpu(in_c.reason)
    try:
        module = extension.built("nbcompile_gpu_launcher", SOURCE, compiler)
    except (BuildError, OSError, ImportError) as error:
        return NoGpu(f"the launcher for GPUs cannot be built: {_first_line(error)}")
    offset = launcher.tensor_offset()
    # Before the driver is opened, because a driver that does not start is an error already.
    module.setup(offset, raise_error, free_memory, torch.OutOfMemoryError)
    try:
        driver, devices = module.open_driver(path)
    except (OSError, RuntimeError) as error:
        return NoGpu(f"no driver for a GPU: {_first_line(error)}")
    if driver < LEAST_DRIVER:
        return NoGpu(
            f"the driver is too old: it has CUDA {driver // 1000}.{driver % 1000 // 10}, and {LEAST_DRIVER // 1000} is "
            "needed (install a newer NVIDIA driver)"
        )
    if not devices:
        return NoGpu("the driver sees no GPU")
    # From here on launcher.c launches kernels and allocates on the GPU through these functions.
    in_c.use_gpu(module.table())
    return GpuLauncher(module, driver, devices)


def forget() -> None:
    """Open the driver again at the next call."""
    _open.cache_clear()


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def kernels_on_gpu(kernels: Sequence[EmittedKernel]) -> tuple[EmittedKernel, ...]:
    """The kernels that are Triton's."""
    return tuple(kernel for kernel in kernels if kernel.language == "triton")


Prepared = Mapping[str, Callable[..., None]]
