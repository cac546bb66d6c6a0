"""Counters of everything that this process compiles: as data, and as text for Prometheus.

    nbcompile.metrics()                        counts from now on; a snapshot
    nbcompile.metrics()["graph_breaks"]        {"Data-dependent branching": 2}
    nbcompile.prometheus()                     the same as text, through prometheus_client

Counting begins with the first call of either, or with NBCOMPILE_METRICS=1; before that, nothing is recorded. Calls of
compiled code are never counted: they do not enter the compiler.

In torch: torch/_dynamo/utils.py (counters, CompilationMetrics). Read next: nbcompile/record/recorder.py
"""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from nbcompile.record.model import EACH_CALL, FROM_STORE, CompiledFrame, Timing

VARIABLE = "NBCOMPILE_METRICS"


class Metrics:
    """The subscriber that counts finished frames."""

    def __init__(self) -> None:
        self.counting = os.environ.get(VARIABLE, "") not in ("", "0")
        self.since = time.time()
        """The time from which everything is counted."""
        self._lock = threading.Lock()
        self._frames: Counter[str] = Counter()
        self._breaks: Counter[str] = Counter()
        self._kernels: Counter[str] = Counter()
        self._numbers: Counter[str] = Counter()
        self._seconds: Counter[str] = Counter()
        self._recompiled: Counter[str] = Counter()

    def wants_frames(self) -> bool:
        """True if counting has begun."""
        return self.counting

    def wants_steps(self) -> bool:
        """False: steps are not counted."""
        return False

    def during(self, compile_id: str) -> contextlib.AbstractContextManager[None]:
        """No-op: nothing is needed while a frame is compiled."""
        return contextlib.nullcontext()

    def receive(self, frame: CompiledFrame, timings: Sequence[Timing]) -> None:
        """Count one frame."""
        compiled = frame.compiled_graph
        with self._lock:
            self._frames["loaded" if frame.cause in FROM_STORE else frame.status] += 1
            self._breaks.update(found.title for found in frame.breaks)
            self._kernels.update(kernel.language for kernel in (compiled.kernels if compiled else ()))
            self._numbers["graphs"] += frame.graph is not None
            self._numbers["operators"] += _operators(frame)
            self._numbers["guards"] += len(frame.guards)
            self._recompiled[frame.function] += bool(frame.failed_guards)
            for timing in timings:
                if timing.inside != EACH_CALL:
                    self._seconds[timing.stage] += timing.seconds  # type: ignore[assignment]  # a Counter adds floats

    def snapshot(self) -> dict[str, Any]:
        """The counters, as values of JSON."""
        with self._lock:
            if not self.counting:
                self.counting, self.since = True, time.time()
            loaded, total = self._frames["loaded"], self._frames.total()
            return {
                "since": self.since,
                "frames": dict(self._frames),
                "store_hit_rate": loaded / total if total else None,
                **{name: self._numbers[name] for name in ("graphs", "operators", "guards")},
                "kernels": dict(self._kernels),
                "graph_breaks": dict(self._breaks),
                "recompilations": {name: count for name, count in self._recompiled.items() if count},
                "compile_seconds": dict(self._seconds),
            }

    def reset(self) -> None:
        """Set all counters to 0."""
        with self._lock:
            self.since = time.time()
            for counter in (self._frames, self._breaks, self._kernels, self._numbers, self._seconds, self._recompiled):
                counter.clear()


def _operators(frame: CompiledFrame) -> int:
    return sum(node.op.startswith("call") for node in frame.graph.nodes) if frame.graph else 0


COUNTS = Metrics()
"""The counters of the process."""
FAMILIES = (
    ("frames", "Frames that were compiled, skipped, failed or loaded from the compile cache.", "status"),
    ("kernels", "Generated kernels and calls of ATen, by language.", "language"),
    ("graph_breaks", "Graph breaks, by their title.", "reason"),
    ("recompilations", "Recompilations, by function.", "function"),
    ("compile_seconds", "Seconds of compilation, by stage; stages may contain others.", "stage"),
)
NUMBERS = (
    ("graphs", "Captured graphs."), ("operators", "Operators in captured graphs."), ("guards", "Guards."),
)  # fmt: skip


class PrometheusCollector:
    """A collector for a registry of prometheus_client: ``REGISTRY.register(PrometheusCollector())``."""

    def collect(self) -> list[Any]:
        """The metric families, as prometheus_client expects them."""
        core: Any = _prometheus("prometheus_client.core")
        counts = COUNTS.snapshot()
        found = []
        for name, text, label in FAMILIES:
            family = core.CounterMetricFamily(f"nbcompile_{name}", text, labels=[label])
            for value, count in counts[name].items():
                family.add_metric([value], count)
            found.append(family)
        return found + [
            core.CounterMetricFamily(f"nbcompile_{name}", text, value=counts[name]) for name, text in NUMBERS
        ]


def metrics() -> dict[str, Any]:
    """Counters of what this process compiled since counting began; the first call begins it.

    Returns:
        ``frames`` by status, ``store_hit_rate``, ``graphs``, ``operators``, ``guards``, ``kernels`` by language,
        ``graph_breaks`` by title, ``recompilations`` by function, ``compile_seconds`` by stage, ``since`` (Unix time).
    """
    return COUNTS.snapshot()


def prometheus() -> str:
    """The counters in the text format of Prometheus.

    Raises:
        ImportError: prometheus_client is not installed: ``pip install 'nbcompile[metrics]'``.
    """
    client: Any = _prometheus("prometheus_client")
    registry = client.CollectorRegistry()
    registry.register(PrometheusCollector())
    return str(client.generate_latest(registry).decode())


def _prometheus(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{error}; metrics for Prometheus need it: pip install 'nbcompile[metrics]'") from error
