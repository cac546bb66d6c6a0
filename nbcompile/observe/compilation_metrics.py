"""torch's list of compilation metrics, filled for dashboards that read it.

    torch._dynamo.utils.get_compilation_metrics()[-1].graph_op_count      2
    ... .compile_id, .co_name, .guard_count, .recompile_reason, .entire_frame_compile_time_s, .fail_type

Like the counters, it is filled from the moment on at which the program has imported that module. Fields of which
nothing is known here (torch's remote caches, its Triton autotuner) stay None; a backward graph has no row of its own.
An entry from the store has a row without a graph.

In torch: CompilationMetrics in torch/_dynamo/utils.py. Read next: nbcompile/observe/metrics.py
"""

from __future__ import annotations

import contextvars
import dataclasses
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import CodeType
from typing import Any

import torch.fx

from nbcompile import errors
from nbcompile.record.model import Break
from nbcompile.support.context_variables import bound
from nbcompile.support.process_state import STATE, Lifetime

_frame_numbers = STATE.add("observe.compilation_metrics._frame_numbers", itertools.count(1), Lifetime.PROCESS)

_current: contextvars.ContextVar[CompilationMetrics | None] = contextvars.ContextVar("nbcompile_metrics", default=None)


class CompilationMetrics:
    """Metrics of one compile, under torch's names."""

    def __init__(self, code: CodeType, compile_id: str) -> None:
        module = sys.modules.get("torch._dynamo.utils")
        # Another thread may be importing the module just now: nothing is in it yet.
        self._torchs: Any = module if hasattr(module, "get_compilation_metrics") else None
        self.facts: dict[str, Any] = {}
        self.backward: list[dict[str, Any]] = []
        """Rows of the backward graphs that were compiled with the frame."""
        self.compile_id = compile_id
        if self._torchs is not None:
            self.facts = {
                "compile_id": compile_id,
                "frame_key": str(next(_frame_numbers)),
                "co_name": code.co_name,
                "co_filename": code.co_filename,
                "co_firstlineno": code.co_firstlineno,
                "is_forward": True,
                "cache_size": 0,
                "accumulated_cache_size": 0,
                "restart_reasons": set(),
            }

    def note(self, **facts: Any) -> None:
        """Add facts."""
        if self._torchs is not None:
            self.facts.update(facts)

    def note_graph(self, module: torch.fx.GraphModule) -> None:
        """Add the size of the captured graph, and the shapes of its values."""
        if self._torchs is None:
            return
        nodes = list(module.graph.nodes)
        # The program's function modes and subclasses are not called: eager mode would not have read these shapes.
        with torch._C.DisableTorchFunction():
            shapes = {
                node.name: [size if isinstance(size, int) else str(size) for size in value.shape]
                for node in nodes
                if isinstance(value := node.meta.get("example_value"), torch.Tensor)
            }
        self.note(
            graph_op_count=sum(node.op.startswith("call_") for node in nodes),
            graph_node_count=len(nodes),
            graph_input_count=sum(node.op == "placeholder" for node in nodes),
            graph_node_shapes=str(shapes),
        )

    def note_breaks(self, reports: Sequence[Break]) -> None:
        """Add why tracing restarted, to end before a break."""
        self.note(restart_reasons={errors.report_text(report) for report in reports})

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the duration of the backend."""
        began = time.perf_counter()
        try:
            yield
        finally:
            if name == "backend":
                self.note(aot_autograd_cumulative_compile_time_us=_microseconds(began))

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Add the duration of a compile and its error, and append the row to torch's list."""
        if self._torchs is None:
            yield
            return
        began = time.perf_counter()
        self.note(has_guarded_code=False)
        try:
            with bound(_current, self):
                yield
            self.note(has_guarded_code=True)
        except BaseException as error:
            self.note(**_failure(error))
            self.backward.clear()
            raise
        finally:
            self.finish(began)

    def finish(self, began: float, **facts: Any) -> None:
        """Add the duration of the compile, and append the row to torch's list."""
        if self._torchs is None:
            return
        duration, ended = _microseconds(began), time.time_ns() // 1000
        self.note(start_time_us=ended - duration, end_time_us=ended, **facts)
        self.note(duration_us=duration, dynamo_cumulative_compile_time_us=duration)
        self._hand_over(self.facts)
        for row in self.backward:
            self._hand_over(row)
        self.backward.clear()

    @contextmanager
    def backward_graph(self, generates: bool) -> Iterator[None]:
        """Add a row for a backward graph, with its duration."""
        began = time.perf_counter()
        yield
        if self._torchs is None:
            return
        duration, ended = _microseconds(began), time.time_ns() // 1000
        row = {
            "compile_id": self.compile_id,
            "is_forward": False,
            "start_time_us": ended - duration,
            "end_time_us": ended,
            "duration_us": duration,
            "backward_cumulative_compile_time_us": duration,
        }
        self.backward.append(row | {"inductor_cumulative_compile_time_us": duration} if generates else row)

    def _hand_over(self, row: dict[str, Any]) -> None:
        cls = self._torchs.CompilationMetrics
        known = {each.name for each in dataclasses.fields(cls)}  # they differ between versions of torch
        facts = {name: value for name, value in row.items() if name in known}
        self._torchs._compilation_metrics.append(cls.create(facts))


def backward_graph(generates: bool) -> AbstractContextManager[None]:
    """Record a backward graph that is compiled in the block; ``generates``: by the code generator."""
    metrics = _current.get()
    return nullcontext() if metrics is None else metrics.backward_graph(generates)


def note_loaded(code: CodeType, compile_id: str, began: float) -> None:
    """Add a row for an entry from the store, which has code and guards although nothing was traced."""
    metrics = CompilationMetrics(code, compile_id)
    metrics.finish(began, has_guarded_code=True)


def _failure(error: BaseException) -> dict[str, object]:
    report = getattr(error, "report", None)
    found: dict[str, object] = {
        "fail_type": type(error).__qualname__,
        "fail_reason": str(error) if report is None else errors.report_text(report),
    }
    stack = getattr(error if report is None else report, "stack", ())
    if stack:
        found |= {"fail_user_frame_filename": stack[-1].file, "fail_user_frame_lineno": stack[-1].line}
    return found


def _microseconds(began: float) -> int:
    return int((time.perf_counter() - began) * 1e6)
