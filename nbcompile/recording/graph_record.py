"""The record of a graph in the backend: its ATen graphs, buffers, fusions and kernels, and notes.

    record_graph(graph_module, "inference", captured)      no listener: nothing is built

In torch: torch/_inductor/debug.py (DebugContext). Read next: nbcompile/record/recorder.py
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import torch.fx

from nbcompile.ir.emitted import EmittedProgram
from nbcompile.observe import compilation_metrics
from nbcompile.record import model, recorder
from nbcompile.recording import entries, kernel_entries
from nbcompile.support.context_variables import bound

_part: contextvars.ContextVar[tuple[str, torch.fx.GraphModule] | None] = contextvars.ContextVar(
    "nbcompile_part", default=None
)
"""The part of a split graph that is being compiled: its name, and the whole graph."""


@contextmanager
def part(name: str, whole: torch.fx.GraphModule) -> Iterator[None]:
    """Context in which new entries belong to a part of a captured graph."""
    with bound(_part, (name, whole)):
        yield


def record_buckets(
    module: torch.fx.GraphModule,
    buckets: Sequence[tuple[model.Part, Sequence[torch.fx.Node], Sequence[str]]],
) -> None:
    """Record the parts of a captured graph: each without ids, with its nodes and the names of its parameters."""
    draft = recorder.draft()
    if draft is None:
        return
    ids = entries.node_ids(module.graph, draft.compile_id)
    for entry, nodes, parameters in buckets:
        named = replace(
            entry, nodes=tuple(ids[node.name] for node in nodes), parameters=tuple(ids[name] for name in parameters)
        )
        draft.add_to_graph("parts", named)


def rewrite_and_record(
    graph_module: torch.fx.GraphModule,
    rewrite: Callable[[torch.fx.GraphModule], tuple[str, ...]],
    captured: torch.fx.GraphModule,
) -> None:
    """Rewrite a graph; if that changed it, the record gets the graph before the rewrite, too."""
    draft = recorder.draft()
    if draft is None:
        rewrite(graph_module)
        return
    # Before the rewrite, which changes the graph in place.
    before = _entry(graph_module, draft.compile_id, "traced", captured)
    done = rewrite(graph_module)
    if done:
        draft.add_to_graph("graphs", before)
    for text in done:
        note(text)


def record_graph(graph_module: torch.fx.GraphModule, stage: str, captured: torch.fx.GraphModule) -> None:
    """Record an ATen graph of a stage."""
    draft = recorder.draft()
    if draft is not None:
        draft.add_to_graph("graphs", _entry(graph_module, draft.compile_id, stage, captured))


def _entry(
    graph_module: torch.fx.GraphModule, compile_id: str, stage: str, captured: torch.fx.GraphModule
) -> model.Graph:
    name, whole = _part.get() or ("", captured)
    return entries.graph(graph_module, compile_id, stage, captured=whole.graph, part=name)


def record_generated(graph_module: torch.fx.GraphModule, stage: str, emitted: EmittedProgram) -> None:
    """Record the generated code of a graph: buffers, fusions, lifetimes, kernels and the wrapper."""
    draft = recorder.draft()
    if draft is None:
        return
    name, _ = _part.get() or ("", None)
    # Names in a part get the part's name as a prefix: each part has a ``buf0``.
    labels = kernel_entries.labels(graph_module.graph, draft.compile_id, f"{name}.{stage}" if name else stage)
    draft.add_to_graph("buffers", *kernel_entries.buffers(emitted.schedule.program, labels))
    draft.add_to_graph("fusions", *kernel_entries.fusions(emitted.schedule.decisions, labels))
    draft.add_to_graph("lifetimes", *kernel_entries.lifetimes(emitted.schedule, labels))
    draft.add_to_graph("kernels", *kernel_entries.kernels(emitted, labels))
    # Forward and backward are generated one after the other, each with a wrapper.
    earlier = str(draft.graph_fields.get("wrapper", ""))
    draft.write_graph(wrapper=earlier + kernel_entries.wrapper(emitted.wrapper, labels))


def timed_backward(*, generates: bool) -> AbstractContextManager[None]:
    """Note a backward graph that is compiled inside, for the list of compilation metrics."""
    return compilation_metrics.backward_graph(generates)


def note(text: str) -> None:
    """Add a note for the reader to the record of the graph."""
    draft = recorder.draft()
    if draft is not None:
        draft.add_to_graph("notes", text)
