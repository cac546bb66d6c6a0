"""SASS instructions by source line: loads and stores are at the lines of their Triton calls."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

import nbcompile
from nbcompile.gpu import sass
from nbcompile.record import links

pytestmark = pytest.mark.prints_machine_code


def softmax(x):
    y = torch.exp(x - x.amax(-1, keepdim=True))
    return y / y.sum(-1, keepdim=True)


@pytest.fixture(scope="module")
def record():
    """The record of a program that is compiled for a GPU and simulated."""
    nbcompile.reset()
    return nbcompile.explain(softmax, options={"target": "sm_90"})(torch.randn(6, 1000)).record


def kernels(record):
    (frame,) = record.frames
    return [each for each in frame.compiled_graph.kernels if each.gpu]


def test_loads_and_stores_stand_at_their_lines(record):
    """``STG`` is at the line of ``tl.store``; instructions of shared memory are at the reductions."""
    (kernel,) = kernels(record)
    text = kernel.source.split("\n")
    of = {text[each.line - 1].strip(): " ".join(each.sass) for each in kernel.gpu.lines}
    assert all("STG" in names for line, names in of.items() if line.startswith("tl.store("))
    assert any("SHFL" in names for line, names in of.items() if "tl.sum(" in line)
    assert all("LDG" in names for line, names in of.items() if "tl.load(" in line)
    assert all("LDG" not in names for line, names in of.items() if "tl.load(" not in line)
    assert all(names.count("STG") == 0 for line, names in of.items() if "tl." not in line)


def test_seven_layers(record):
    """Each operator is found in the source, the bytecode, the graph, loop IR, Triton, PTX and SASS."""
    (frame,) = record.frames
    found = links.frame_links(frame)
    names = {node.id: node.name for node in links.operators(frame.graph)}
    spans = {node for line in found.spans.values() for span in line for node in span.nodes}
    instructions = {node for nodes in found.by_instruction.values() for node in nodes}
    buffers = {node for each in frame.compiled_graph.buffers for node in found.captured(each.id)}
    by_line = {
        line: set(nodes) for each in kernels(record) for line, nodes in links.kernel_line_nodes(found, each).items()
    }
    costs = {each.line: each for kernel in kernels(record) for each in kernel.gpu.lines}
    ptx = {node for line, nodes in by_line.items() if line in costs and costs[line].ptx for node in nodes}
    machine = {node for line, nodes in by_line.items() if line in costs and costs[line].sass for node in nodes}
    for layer in (spans, instructions, buffers, set().union(*by_line.values()), ptx, machine):
        assert names.keys() <= layer


def test_without_a_disassembler_there_is_none(monkeypatch, tmp_path):
    """Without a disassembler there is no SASS, but all other figures."""
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(sass, "disassembler", lambda: "/nowhere/nvdisasm")
    nbcompile.reset()
    found = nbcompile.explain(softmax, options={"target": "sm_90"})(torch.randn(6, 1000))
    (kernel,) = kernels(found.record)
    assert kernel.gpu.registers > 0
    assert all(each.sass == () for each in kernel.gpu.lines)
