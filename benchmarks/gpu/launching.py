"""What a launch costs the CPU: our launcher beside Triton's, on one driver; and a graph of 100 kernels in one call.

    measured(gpu)    {"name": "one kernel", "nbcompile_us": 0.17, "triton_us": 7.4}, ...

On the stand-in driver nothing is executed while this is measured: a launch is counted, and returns. On a GPU kernels of
one block run behind the launches.

Read next: nbcompile/runtime/gpu_launcher.cpp
"""

from __future__ import annotations

import contextlib
import os
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx

import nbcompile
from benchmarks.gpu.machine import Gpu
from nbcompile.codegen import triton
from nbcompile.gpu import cubins
from nbcompile.lowering import lower
from nbcompile.runtime import gpu_launcher, toolchain
from nbcompile.runtime.triton import load_source
from nbcompile.scheduling import schedule

KERNELS = 100


def measured(gpu: Gpu) -> Iterator[dict[str, Any]]:
    """Rows of microseconds."""
    if gpu.standin:
        gpu.standin.driver.clear_callbacks()
        gpu.standin.driver.set_logging(False)
    try:
        yield _one_kernel(gpu)
        yield from _whole_graph()
    finally:
        if gpu.standin:
            gpu.standin.driver.set_logging(True)
            gpu.standin.executor.attach()


def least(call: Callable[[], object], rounds: int = 40, calls: int = 300) -> float:
    """Least microseconds of a call, over rounds: enough of them that another process does not slow down all."""
    for _ in range(10):
        call()
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter() - began) / calls)
        if not torch.version.cuda:
            continue
        torch.cuda.synchronize()
    return best * 1e6


def _one_kernel(gpu: Gpu) -> dict[str, Any]:
    """One kernel of two tensors, launched alone by each launcher."""
    found = nbcompile.explain(lambda x: torch.relu(x) + 1)(torch.ones(64).to("cuda"))
    source = found.kernels[0].source
    launcher = gpu_launcher.open_launcher(toolchain.find())
    kernel = _emitted(lambda x: torch.relu(x) + 1)
    (cubin,) = cubins.obtain([cubins.Request(kernel, gpu.chip)])
    ready = launcher.prepare(kernel, cubin.image, 0, unaligned=lambda: cubin.image)
    x, out = (torch.zeros(64).to("cuda") for _ in range(2))
    ours = least(lambda: ready(x, out))
    try:
        triton_us, reason = least(_triton_launch(gpu, kernel, x, out)), ""
    except Exception as error:
        triton_us, reason = None, f"{type(error).__name__}: {str(error).strip().splitlines()[0][:160]}"
    return {"name": "one kernel", "nbcompile_us": ours, "triton_us": triton_us, "reason": reason, "kernel": source}


def _emitted(function: Callable[..., Any]) -> Any:
    """The kernel that is generated for a function of one vector of 64 numbers."""
    example = torch.ones(64).to("cuda")
    graph = make_fx(function, tracing_mode="fake")(example)
    return triton.emit(schedule(lower(graph))).kernels[0]


def _triton_launch(gpu: Gpu, kernel: Any, x: torch.Tensor, out: torch.Tensor) -> Callable[[], object]:
    """The same kernel through Triton's JIT function and its launcher in C."""
    if gpu.standin:
        _use_standin_for_triton(gpu)
    module = load_source(f"{kernel.header}\n\n{kernel.source}")
    function = getattr(module, kernel.name)
    return lambda: function[(1,)](x, out, num_warps=kernel.warps)


def library_folder(driver: Path) -> Path:
    """A folder in which the system's loader finds the stand-in as ``libcuda.so.1`` (LD_LIBRARY_PATH)."""
    folder = driver.with_suffix("")
    folder.mkdir(exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (folder / "libcuda.so.1").symlink_to(driver)
    return folder


def _use_standin_for_triton(gpu: Gpu) -> None:
    """Let Triton's own driver module load the stand-in: it asks torch for the device and the stream."""
    os.environ["TRITON_LIBCUDA_PATH"] = str(library_folder(gpu.standin.driver.path))
    stream = types.SimpleNamespace(cuda_stream=0)
    torch.cuda.is_available = lambda: True
    torch.cuda.get_device_capability = lambda device=None: (9, 0)
    torch.cuda.set_device = lambda device: None
    torch.cuda.current_stream = lambda device=None: stream
    torch._C._cuda_getCurrentRawStream = lambda device: 0


def _whole_graph() -> Iterator[dict[str, Any]]:
    """A graph of 100 kernels, launched and replayed: softmax over columns and over rows in turn cannot be fused."""

    def function(x: torch.Tensor) -> torch.Tensor:
        for _ in range(KERNELS // 2):
            x = x.softmax(0).softmax(1)
        return x

    x = torch.zeros(64, 64).to("cuda")
    found = nbcompile.explain(function)(x)
    compiled = nbcompile.compile(function)
    took, kernels = least(lambda: compiled(x), calls=50), len(found.kernels)
    yield {"name": f"{kernels} kernels in a graph", "nbcompile_us": took, "kernels": kernels}
    replayed = nbcompile.compile(function, mode="reduce-overhead")
    took = least(lambda: replayed(x), calls=50)
    yield {"name": f"{kernels} kernels in a replayed CUDA graph", "nbcompile_us": took, "kernels": kernels}
