"""Entries of a compiled graph: a kernel for each kernel of the schedule, and a live range for each buffer."""

from __future__ import annotations

import torch

import nbcompile
from nbcompile import api


def summed(x, y):
    return torch.softmax(x @ y, 0) + 1


def test_kernels_and_lifetimes_are_of_one_schedule():
    """Each live range is of a buffer of the program, and each kernel has its captured nodes."""
    nbcompile.reset()
    compiled, frame_recorder = nbcompile.compile(summed), api.new_recorder("summed")
    with frame_recorder.listening():
        compiled(torch.ones(4, 4), torch.ones(4, 4))
    (frame,) = frame_recorder.record().frames
    graph = frame.compiled_graph
    assert "cpp" in {kernel.language for kernel in graph.kernels}
    buffers = {buffer.name for buffer in graph.buffers}
    assert {life.buffer for life in graph.lifetimes} <= buffers
    assert all(kernel.from_nodes for kernel in graph.kernels)
