"""Decisions about recordings, with a driver module in Python: what is recorded when, and which inputs are copied."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from nbcompile import torch_internals
from nbcompile.gpu import cuda_graphs
from nbcompile.gpu.cuda_graphs import ADDRESS, IN_CAPTURE, IN_USE, LAYOUT, ReplayedProgram
from nbcompile.ir.emitted import CaptureFacts


class Graph:
    """A recording with the addresses of its inputs."""

    def __init__(self, module, inputs, seen) -> None:
        self.module = module
        self.layout = [value.shape for value in inputs]
        self.static = [value.data_ptr() if value is place else None for value, place in zip(inputs, seen, strict=True)]

    def run(self, inputs, most, draw):
        if [value.shape for value in inputs] != self.layout:
            return LAYOUT
        if self.changed(inputs):
            return ADDRESS
        if self.module.busy > most:
            return IN_USE
        return self.module.answer if self.module.answer is not None else ("replayed", len(self.layout))

    def changed(self, inputs):
        known = zip(self.static, inputs, strict=True)
        return [at for at, (old, value) in enumerate(known) if old is not None and old != value.data_ptr()]


class Module(SimpleNamespace):
    """The launcher's functions, without a GPU."""

    busy = 0
    answer = None

    def make_pool(self, device) -> SimpleNamespace:
        return SimpleNamespace(ready=lambda: True, idle=lambda: True)

    def begin_capture(self, pool) -> None:
        pass

    def end_capture(self, keep) -> int:
        return 1

    def is_output(self, value) -> bool:
        return False

    def make_recording(self, pool, executable, inputs, seen, given, result) -> Graph:
        return Graph(self, inputs, seen)


@pytest.fixture
def made(monkeypatch):
    """A factory of programs, with the list of their notes."""
    monkeypatch.setattr(torch_internals, "new_memory_pool", lambda: (0, 1))
    monkeypatch.setattr(torch_internals, "memory_pool_release", lambda: lambda device, pool: None)
    monkeypatch.setattr(torch_internals, "allocating_from", lambda device, pool: nullcontext())
    notes: list[str] = []

    def program(inputs):
        inputs.clear()
        return ("launched",)

    def make(written=()):
        facts = CaptureFacts("", written)
        return ReplayedProgram(program, program, (), SimpleNamespace(module=Module()), 0, facts, notes.append), notes

    return make


def test_a_layout_is_recorded_when_it_comes_again(made):
    """The first call launches, the second one records and replays; the list of inputs is always emptied."""
    replayed, notes = made()
    x = torch.ones(3)
    inputs = [x]
    assert replayed(inputs) == ("launched",)
    assert replayed([x]) == ("replayed", 1)
    assert replayed([torch.ones(4)]) == ("launched",)
    assert notes == ["recorded a CUDA graph: 1 static inputs, 0 copied"]
    assert inputs == []


def test_an_input_that_moves_is_copied_from_then_on(made):
    """An input with a changing address causes one more recording, which copies it."""
    replayed, notes = made()
    kept = [torch.ones(3) for _ in range(6)]
    for x in kept[:1] * 3 + kept:
        replayed([x])
    assert len(notes) == 2
    assert "0 static inputs, 1 copied" in notes[1]


@pytest.mark.parametrize("before", [True, False])
def test_random_tensors_are_drawn_once_where_a_replay_fails(made, before, monkeypatch):
    """Random tensors are drawn once if a replay fails, before the draw for lack of memory, or after it."""
    replayed, _ = made()
    seen = []
    draws = SimpleNamespace(
        results=(SimpleNamespace(buffer=lambda: torch.zeros(1)),), fill=lambda buffers: buffers[0].add_(1)
    )
    replayed.draws = (draws,)
    x = torch.ones(2)
    for _ in range(2):
        replayed([x])
    replayed.recorded_program = lambda given: seen.append(given[1].item())

    def run(inputs, most, draw):
        if not before:
            draw()
        raise torch.OutOfMemoryError

    monkeypatch.setattr(replayed.graphs[0].executable, "run", run)
    replayed([x])
    assert seen == [1]


def test_a_written_input_that_moves_ends_recording(made):
    """A mutated input with a changing address ends recording, with torch's text."""
    replayed, notes = made(((0, "line 3"),))
    for x in [torch.ones(3) for _ in range(3)]:
        assert replayed([x]) == ("launched",)
    assert notes == ["skipping cudagraphs due to mutated inputs (1 instances). Found from : \n line 3"]


def test_results_in_use_are_other_recordings_up_to_a_limit(made):
    """Live results cause more recordings, up to a limit; above it, results are moved."""
    replayed, notes = made()
    x = torch.ones(3)
    replayed([x])
    replayed([x])
    replayed.gpu.module.busy = cuda_graphs.MAX_COPIED_BYTES + 1
    for _ in range(6):
        assert replayed([x]) == ("replayed", 1)
    assert len(replayed.graphs) == cuda_graphs.MAX_GRAPHS_PER_LAYOUT


def test_inside_a_capture_of_the_users_kernels_are_launched(made):
    """In a user's capture, kernels are launched."""
    replayed, _ = made()
    x = torch.ones(3)
    replayed([x])
    replayed([x])
    replayed.gpu.module.answer = IN_CAPTURE
    assert replayed([x]) == ("launched",)
