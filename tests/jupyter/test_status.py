"""A status line during a long compilation; Ctrl-C ends it in any phase, and the function still works."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import pytest
import torch

from nbcompile import api, backends
from nbcompile.jupyter import status
from nbcompile.record import recorder

PHASES = ("tracing", "backend", "lowering", "scheduling", "codegen", "build", "guards", "residual program")
CELL = "%%compile -o seen --backend {}\nimport torch\ndef f(x):\n    return x.sin() * 3\nf(torch.ones(3))"


def slow(graph, inputs):
    time.sleep(0.5)
    return graph


@pytest.fixture
def slow_backend():
    """A slow backend."""
    backends.register(slow, name="slow")


@pytest.fixture
def hasty(monkeypatch, shell):
    """A notebook in which each compilation counts as long."""
    shell.kernel = object()
    monkeypatch.setattr(status, "PATIENCE", 0.05)
    monkeypatch.setattr(status, "PERIOD", 0.02)
    yield
    del shell.kernel


def test_a_long_compilation_says_what_it_does(run, shell, hasty, slow_backend):
    """The line has the phase and its duration, at the position of the later view."""
    ran = run(CELL.format("slow"))
    first, *later = ran.outputs
    assert first.data["text/plain"].startswith("nbcompile: ")
    told = [each.data["text/plain"] for each in ran.outputs[:-1]]
    assert any(" f, backend, " in each for each in told)
    times = [float(each.split()[-2]) for each in told]
    assert times == sorted(times)
    assert "class=nbc" in later[-1].data["text/html"]
    assert len({each.transient["display_id"] for each in ran.outputs}) == 1
    assert [each.update for each in ran.outputs] == [False] + [True] * len(later)
    assert not [each for each in threading.enumerate() if each.name == "nbcompile status"]


def test_a_quiet_cell_takes_the_line_away(run, hasty, slow_backend):
    """With ``-q`` the line is removed at the end."""
    ran = run(CELL.format("slow").replace("-o seen", "-q"))
    assert ran.outputs[-1].data == {"text/plain": ""}


def test_a_short_compilation_says_nothing(run, shell):
    """Below the time limit there is neither a line nor a thread, and none if no output shows it."""
    ran = run(CELL.format("eager"))
    assert len(ran.outputs) == 1


@pytest.mark.parametrize("phase", PHASES)
def test_interrupted_in_any_phase(run, shell, monkeypatch, phase):
    """The cell ends as KeyboardInterrupt, the view names the phase, and the next call compiles normally."""
    stage, pending = recorder.stage, [True]

    @contextmanager
    def interrupted(name):
        with stage(name):
            if name == phase and pending:
                pending.clear()
                raise KeyboardInterrupt
            yield

    monkeypatch.setattr(recorder, "stage", interrupted)
    ran = run(CELL.format("inductor"))
    assert not pending
    assert isinstance(ran.error, KeyboardInterrupt)
    (frame,) = shell.user_ns["seen"].record.frames
    assert (frame.status, frame.skip_reason.partition(":")[0]) == ("failed", f"interrupted in {phase}")
    assert "the next call compiles again" in ran.pictures[-1]["text/plain"].replace("\n", " ").replace("  ", " ")
    frame_recorder = api.new_recorder("again")
    with frame_recorder.listening():
        again = run("f(torch.ones(3))")
    torch.testing.assert_close(again.value, torch.ones(3).sin() * 3)
    assert [each.status for each in frame_recorder.record().frames] == ["compiled"]
