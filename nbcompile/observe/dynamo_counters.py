"""torch's own counters of compilations, filled for dashboards and tests that read them.

    torch._dynamo.utils.counters["graph_break"]       {"Data-dependent branching...": 1}
    torch._dynamo.utils.counters["stats"]             {"calls_captured": 5, "unique_graphs": 2}
    torch._dynamo.utils.compile_times("csv")          seconds of each compile, by stage

Nothing is counted before the program has imported that module, since no code could read it.

In torch: torch/_dynamo/utils.py (counters, compilation_time_metrics). Read next:
nbcompile/observe/compilation_metrics.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from types import CodeType
from typing import Any

import torch.fx

from nbcompile import errors
from nbcompile.record.model import Break

TIMES = {"frame": "_compile.compile_inner", "backend": "OutputGraph.call_user_compiler", "guards": "build_guards"}
"""Stages by torch's names for them."""


def _of_torch(name: str) -> Any:
    """One of the dicts of torch's module; None if the program has not imported it."""
    return getattr(sys.modules.get("torch._dynamo.utils"), name, None)


def add(family: str, key: str, amount: int = 1) -> None:
    """Count something under torch's names."""
    counters: Mapping[str, Any] | None = _of_torch("counters")
    if counters is not None:
        counters[family][key] += amount


def count_graph(module: torch.fx.GraphModule) -> None:
    """Count a graph that a backend gets, and the calls in it."""
    add("stats", "calls_captured", sum(node.op.startswith("call_") for node in module.graph.nodes))
    add("stats", "unique_graphs")


def count_breaks(reports: Sequence[Break], is_skipped: bool) -> None:
    """Count graph breaks by message; those for which a frame is not compiled are counted separately."""
    for report in reports:
        add("unimplemented" if is_skipped else "graph_break", errors.report_text(report))


def count_resumes(codes: Sequence[CodeType]) -> None:
    """Count the resume functions of a frame."""
    for code in codes:
        add("resumes", code.co_name)


@contextmanager
def timed(stage: str) -> Iterator[None]:
    """Add the seconds that a stage takes to torch's list of them, if torch has a name for it."""
    times = _of_torch("compilation_time_metrics") if stage in TIMES else None
    began = perf_counter()
    try:
        yield
    finally:
        if times is not None:
            times.setdefault(TIMES[stage], []).append(perf_counter() - began)
