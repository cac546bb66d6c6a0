"""The record of a graph in the backend: its ATen graphs, buffers, fusions and kernels, and notes.

    record_graph(graph_module, "inference", captured)      nobody listens: nothing is built

In torch: torch/_inductor/debug.py (DebugContext). Read next: nbcompile/record/recorder.py
"""

from __future__ import annotations

from collections.abc import Callable

import torch.fx

from nbcompile.ir.emitted import EmittedProgram
from nbcompile.record import recorder
from nbcompile.recording import entries


def rewrite_and_record(
    graph_module: torch.fx.GraphModule,
    rewrite: Callable[[torch.fx.GraphModule], tuple[str, ...]],
    captured: torch.fx.GraphModule,
) -> None:
    """Improve a graph; what it was is kept in the record if anything was done."""
    draft = recorder.draft()
    if draft is None:
        rewrite(graph_module)
        return
    # Before the rewrite, which changes the graph in place.
    before = entries.graph(graph_module, draft.compile_id, "traced", captured=captured.graph)
    done = rewrite(graph_module)
    if done:
        draft.add_to_graph("graphs", before)
    for text in done:
        note(text)


def record_graph(graph_module: torch.fx.GraphModule, stage: str, captured: torch.fx.GraphModule) -> None:
    """Record an ATen graph of a stage."""
    draft = recorder.draft()
    if draft is not None:
        draft.add_to_graph("graphs", entries.graph(graph_module, draft.compile_id, stage, captured=captured.graph))


def record_generated(graph_module: torch.fx.GraphModule, stage: str, emitted: EmittedProgram) -> None:
    """Record what was generated of a graph: buffers, fusions, lifetimes, kernels and the wrapper."""
    draft = recorder.draft()
    if draft is None:
        return
    labels = entries.labels(graph_module.graph, draft.compile_id, stage)
    draft.add_to_graph("buffers", *entries.buffers(emitted.schedule.program, labels))
    draft.add_to_graph("fusions", *entries.fusions(emitted.schedule.decisions, labels))
    draft.add_to_graph("lifetimes", *entries.lifetimes(emitted.schedule, labels))
    draft.add_to_graph("kernels", *entries.kernels(emitted, labels))
    # Forward and backward are generated one after the other, each with a wrapper.
    earlier = str(draft.graph_fields.get("wrapper", ""))
    draft.write_graph(wrapper=earlier + entries.wrapper(emitted.wrapper, labels))


def note(text: str) -> None:
    """Tell the record what a reader of the pictures must know."""
    draft = recorder.draft()
    if draft is not None:
        draft.add_to_graph("notes", text)
