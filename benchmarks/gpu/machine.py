"""The GPU of a measurement: the one that is here, or the stand-in whose kernels the simulator runs.

    with machine.opened(standin=False) as gpu:
        gpu.microseconds(lambda: f(x))             by CUDA events, the L2 cache flushed before each call
        gpu.host_microseconds(lambda: f(x))        what the CPU spends until the launch is queued

On the stand-in nothing is timed on the device: its time is the simulator's.

Read next: benchmarks/gpu/parts.py
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.gpu.programs import FULL, SMALL
from nbcompile.gpu.standin import device

FLUSHED = 256 << 20
"""Bytes that are written between two calls: more than any L2 cache holds."""
ROUNDS = 15


@dataclass(slots=True)
class Gpu:
    """Where programs run."""

    name: str
    chip: str
    """``sm_90``."""
    standin: Any = None
    """The stand-in device; None on a real GPU."""

    @property
    def size(self) -> int:
        """Elements of a program's tensors."""
        return SMALL if self.standin else FULL

    def microseconds(self, call: Callable[[], object], rounds: int = ROUNDS) -> float | None:
        """Median time on the device; None on the stand-in."""
        if self.standin:
            call()
            return None
        flush = torch.empty(FLUSHED, dtype=torch.int8, device="cuda")
        for _ in range(3):
            call()
        times = []
        for _ in range(rounds):
            flush.zero_()
            began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            began.record()
            call()
            ended.record()
            torch.cuda.synchronize()
            times.append(began.elapsed_time(ended) * 1e3)
        return statistics.median(times)

    def host_microseconds(self, call: Callable[[], object], rounds: int = 5, calls: int = 20) -> float | None:
        """Least time until the CPU may go on; None on the stand-in, where a launch returns when it has run."""
        if self.standin:
            return None
        best = float("inf")
        for _ in range(rounds):
            torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in range(calls):
                call()
            best = min(best, (time.perf_counter() - began) / calls)
        torch.cuda.synchronize()
        return best * 1e6


@contextmanager
def opened(standin: bool) -> Iterator[Gpu]:
    """The GPU, while it is used.

    Raises:
        RuntimeError: there is none.
    """
    if standin:
        with device.standin() as here:
            yield Gpu("the stand-in for an H200", "sm_90", here)
        return
    if not torch.cuda.is_available():
        raise RuntimeError("torch sees no CUDA device here: `make gpu STANDIN=1` runs all parts on the stand-in")
    major, minor = torch.cuda.get_device_capability()
    yield Gpu(torch.cuda.get_device_name(), f"sm_{major}{minor}")


def on_device(value: Any) -> Any:
    """A copy on the GPU of each tensor of a program's arguments, or of a module."""
    if isinstance(value, torch.nn.Module):
        return value.to("cuda")
    if isinstance(value, torch.Tensor):
        return value.detach().to("cuda").requires_grad_(value.requires_grad)
    return tuple(map(on_device, value)) if isinstance(value, tuple) else value
