"""Record entries of one ATen graph, and of its generated code."""

from __future__ import annotations

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from nbcompile.aot.decompositions import default_table
from nbcompile.codegen import cpp
from nbcompile.lowering import lower
from nbcompile.record import recorder
from nbcompile.recording import entries, graph_record, kernel_entries
from nbcompile.scheduling import schedule


def emitted_program():
    """An ATen graph with a product, which runs through ATen, and a kernel; and the emitted program."""
    x, w = torch.randn(8, 8), torch.randn(8, 8)
    graph = make_fx(lambda x, w: torch.relu(x @ w + 1), decomposition_table=default_table(), tracing_mode="fake")(x, w)
    return graph, cpp.emit(schedule(lower(graph)))


def test_every_kernel_line_knows_its_nodes():
    """Each line has fx nodes as origins, and each kernel and each ATen call has an entry."""
    graph, emitted = emitted_program()
    labels = kernel_entries.labels(graph.graph, "0/0", "forward")
    found = kernel_entries.kernels(emitted, labels)
    assert {entry.language for entry in found} == {"cpp", "aten"}
    assert all(entry.reason for entry in found if entry.language == "aten")
    assert all(entry.id.startswith("0/0.forward.") for entry in found)
    assert any(labels.nodes["relu"] in line.nodes for entry in found for line in entry.lines)


def test_nothing_is_built_without_a_listener(monkeypatch):
    """Without a draft, not even the labels of the nodes are computed."""
    monkeypatch.setattr(kernel_entries, "labels", None)
    graph, emitted = emitted_program()
    assert recorder.draft() is None
    graph_record.record_generated(graph, "inference", emitted)
    graph_record.note("unheard")


def test_a_graph_that_a_rewrite_leaves_alone_is_not_recorded_twice():
    """The graph before a rewrite is recorded only if the rewrite changed it; a note describes the change."""
    graph, _ = emitted_program()
    with recorder.Recorder("f", entries.environment("g++")).listening(), recorder.frame("0/0", "f") as draft:
        graph_record.rewrite_and_record(graph, lambda module: (), graph)
        assert draft.graph_fields.get("graphs", ()) == ()
        graph_record.rewrite_and_record(graph, lambda module: ("fused",), graph)
    assert [entry.stage for entry in draft.graph_fields["graphs"]] == ["traced"]
    assert list(draft.graph_fields["notes"]) == ["fused"]
