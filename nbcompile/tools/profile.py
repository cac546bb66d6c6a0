"""Profile compiled code: time, bytes and share of the roofline, by kernel and by source line.

    print(nbcompile.profile(f)(x))                    f(x) a few times, under torch.profiler
    with profiling("train.py") as profiler: ...       all compiled code that runs inside
    profiler.result().lines                           data
    profiler.write_trace(path)                        one file for Perfetto: compile stages, frames, kernels, memory

Kernels are ranges of torch.profiler while one is active (nbcompile/ir/profiler_ranges.py), so any profile has their
names.

In torch: torch/profiler, torch/_inductor/analysis/profile_analysis.py. Read next: nbcompile/record/profile.py
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import linecache
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.profiler import ProfilerActivity
from torch.utils.flop_counter import flop_registry

from nbcompile import api
from nbcompile.eval_frame import compiled_module
from nbcompile.record.profile import COMPILE, FRAME, KernelTime, LineTime, Machine, Place, Profile
from nbcompile.runtime import program
from nbcompile.support import wrappers
from nbcompile.views.profile import ProfileView

CALLS = 10
"""Default number of measured calls."""
COPIED = 1 << 26
"""Bytes of the copy that measures memory bandwidth: more than a cache holds."""
MOST_OF_TRACE = 64 << 20
"""Maximum bytes of a trace to which a memory curve is added; a longer one has only marks."""
ORDER = 512
"""Rows of the matrices whose product measures arithmetic throughput."""


def profile(function: Callable[..., Any], *, calls: int = CALLS, trace: str | Path = "") -> Callable[..., ProfileView]:
    """Measure a function that nbcompile compiles.

    Args:
        function: a function, method or module; one that is not compiled yet is compiled with the default backend.
        calls: number of measured calls, after one that compiles.
        trace: a file for Perfetto (``chrome://tracing`` reads it, too).

    Returns:
        A function with the same arguments that returns a :class:`ProfileView`.
    """
    if calls < 1:
        raise ValueError(f"calls must be at least 1, not {calls}")
    compiled = (
        function if wrappers.is_compiled_here(function) or _is_compiled_module(function) else api.compile(function)
    )

    def profiled(*arguments: Any, **keywords: Any) -> ProfileView:
        # The first call compiles, and is not measured.
        compiled(*arguments, **keywords)
        with profiling(getattr(function, "__name__", type(function).__name__)) as profiler:
            for _ in range(calls):
                compiled(*arguments, **keywords)
        if trace:
            profiler.write_trace(trace)
        return ProfileView(profiler.result())

    return profiled


def _is_compiled_module(function: object) -> bool:
    return isinstance(function, compiled_module.CompiledModule)


@contextlib.contextmanager
def profiling(title: str) -> Iterator[Profiler]:
    """Profile the compiled code that runs inside.

    Raises:
        RuntimeError: another profiler is active in this thread.
    """
    if torch.autograd._profiler_enabled():  # type: ignore[attr-defined]
        raise RuntimeError("another profiler is active: its own result has the names of our kernels")
    profiler = Profiler(title, torch.profiler.profile(activities=[ProfilerActivity.CPU], profile_memory=True))
    program.listeners.append(profiler.called)
    try:
        with profiler.torchs:
            yield profiler
    finally:
        program.listeners.remove(profiler.called)


@dataclass
class _Sums:
    """Sums over the calls of one kernel."""

    locations: tuple[tuple[str, int], ...] = ()
    bytes: int = 0
    flops: int = 0


@dataclass
class Profiler:
    """One profile, while it is measured and afterwards."""

    title: str
    torchs: torch.profiler.profile
    sums: dict[str, _Sums] = field(default_factory=lambda: defaultdict(_Sums))

    def called(self, call: program.RangedCall) -> None:
        """Add the sizes of one call."""
        found = self.sums[call.label]
        found.locations = call.locations
        # A tensor that is mutated in place is both argument and result, and counts once.
        tensors = {
            id(leaf): leaf
            for leaf in pytree.tree_leaves((call.arguments, call.result))
            if isinstance(leaf, torch.Tensor)
        }
        found.bytes += sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        found.flops += _flops(call)

    def result(self) -> Profile:
        """The profile."""
        kernels: dict[str, list[float]] = defaultdict(list)
        frames: list[float] = []
        compiling = nested = 0.0
        for event in self.torchs.events() or ():
            if event.name in self.sums:
                kernels[event.name].append(event.time_range.elapsed_us())
            elif event.name.startswith(COMPILE) and not _is_inside(event, COMPILE):
                compiling += event.time_range.elapsed_us()
                nested += event.time_range.elapsed_us() if _is_inside(event, FRAME) else 0.0
            elif event.name.startswith(FRAME) and not _is_inside(event, FRAME):
                frames.append(event.time_range.elapsed_us())
        measured = [self._kernel(label, found) for label, found in kernels.items()]
        times = tuple(sorted(measured, key=lambda kernel: kernel.microseconds, reverse=True))
        # The run time of a frame excludes compilations inside it.
        whole = max(sum(frames) - nested, sum(kernel.microseconds for kernel in times))
        reached = machine(torch.get_num_threads())
        return Profile(self.title, len(frames), whole, compiling, times, _lines(times, reached), reached, self._peak())

    def _kernel(self, label: str, found: list[float]) -> KernelTime:
        known = self.sums[label]
        name, _, operators = label.partition(" ")
        return KernelTime(
            name,
            re.sub(r" \([^()]*\)$", "", operators),
            tuple(Place(*location) for location in known.locations),
            len(found),
            sum(found),
            known.bytes,
            known.flops,
        )

    def _peak(self) -> int:
        # Frees have negative sizes: the largest running sum is the peak.
        changes = [event for event in self._raw_events() if event.name() == "[memory]"]
        held = itertools.accumulate(event.nbytes() for event in sorted(changes, key=lambda event: event.start_ns()))
        return max(held, default=0)

    def _raw_events(self) -> list[Any]:
        inner = self.torchs.profiler
        return list(inner.kineto_results.events()) if inner is not None and inner.kineto_results is not None else []

    def write_trace(self, path: str | Path) -> None:
        """Write one file for Perfetto: compile stages, compiled frames, kernels with their lines, memory as a curve."""
        self.torchs.export_chrome_trace(str(path))
        if Path(path).stat().st_size <= MOST_OF_TRACE:
            _add_memory_curve(Path(path))


def _add_memory_curve(path: Path) -> None:
    """Add counters of the allocated bytes: torch writes each allocation as an instant, which is drawn as a mark."""
    trace = json.loads(path.read_text(encoding="utf-8"))
    trace["traceEvents"] += [
        {
            "ph": "C", "name": "allocated memory", "pid": event["pid"], "ts": event["ts"],
            "args": {"bytes": event["args"]["Total Allocated"]},
        }
        for event in trace["traceEvents"]
        if event.get("name") == "[memory]" and event["args"].get("Device Type") == 0
    ]  # fmt: skip
    path.write_text(json.dumps(trace), encoding="utf-8")


def _is_inside(event: Any, prefix: str) -> bool:
    parent = event.cpu_parent
    while parent is not None:
        if parent.name.startswith(prefix):
            return True
        parent = parent.cpu_parent
    return False


def _flops(call: program.RangedCall) -> int:
    formula = flop_registry.get(getattr(call.function, "overloadpacket", None))
    if formula is None:
        return 0
    with contextlib.suppress(Exception):  # a formula that does not support these arguments
        return int(formula(*call.arguments, **call.keywords, out_val=call.result))
    return 0


def _lines(kernels: tuple[KernelTime, ...], reached: Machine) -> tuple[LineTime, ...]:
    by_location: dict[Place, list[KernelTime]] = defaultdict(list)
    for kernel in kernels:
        for location in kernel.places:
            by_location[location].append(kernel)
    return tuple(_line(location, by_location[location], reached) for location in sorted(by_location, key=_order))


def _line(location: Place, computing: list[KernelTime], reached: Machine) -> LineTime:
    spent = sum(kernel.microseconds for kernel in computing)
    least = sum(kernel.least_microseconds(reached) for kernel in computing)
    others = {other for kernel in computing for other in kernel.places} - {location}
    return LineTime(
        location,
        linecache.getline(location.file, location.line).strip(),
        tuple(kernel.id for kernel in computing),
        spent,
        sum(kernel.bytes for kernel in computing),
        least / spent if spent else 0.0,
        tuple(sorted(others, key=_order)),
    )


def _order(location: Place) -> tuple[str, int]:
    return location.file, location.line


@functools.cache
def machine(threads: int) -> Machine:
    """Measure the limits of this machine with a number of threads (once: a tenth of a second)."""
    source = torch.ones(COPIED // 4)
    target = torch.empty_like(source)
    left = torch.ones(ORDER, ORDER)
    copy = _best(lambda: target.copy_(source))
    product = _best(lambda: left @ left)
    # A copy reads and writes each byte; each term of a product is a multiplication and an addition.
    return Machine(2 * COPIED / copy, 2 * ORDER**3 / product, threads)


def _best(run: Callable[[], object], tries: int = 5) -> float:
    best = float("inf")
    for _ in range(tries):
        began = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - began)
    return best
