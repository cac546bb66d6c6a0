"""Two aligned records of one program; exactly the planted differences are found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import nbcompile
from nbcompile.observe import trace_reader
from nbcompile.record.comparison import EQUAL, EngineRun
from nbcompile.record.model import FailedGuard, Record
from nbcompile.tools.compare import align
from tests.tools.compare.programs import traced

STORED = Path(__file__).parents[2] / "observe" / "traces" / "torch_2_13_inductor.log.gz"


@pytest.fixture(scope="module")
def record() -> Record:
    """A record of the real torch.compile: a function with a graph break, called with two sizes."""
    return trace_reader.read(STORED).records[0]


def compared(ours: Record, theirs: Record, our_run: EngineRun = EngineRun(), their_run: EngineRun = EngineRun()):
    return align.align("f", ours, theirs, our_run, their_run)


def changed(record: Record, position: int, **fields) -> Record:
    frames = list(record.frames)
    frames[position] = replace(frames[position], **fields)
    return replace(record, frames=tuple(frames))


def test_a_record_equals_itself(record):
    """A record equals itself: no difference, and all guards and numbers are equal."""
    found = compared(record, record)
    assert found.differences == ()
    assert {guard.status for pair in found.frames for guard in pair.guards} == {EQUAL}
    assert all(fact.ours == fact.theirs for fact in found.facts)
    assert sum(len(line.ours.operators) for pair in found.frames for line in pair.lines) > 0


@pytest.mark.parametrize(
    ("aspect", "change"),
    [
        ("graph break", lambda frame: {"breaks": ()}),
        ("graph", lambda frame: {"graph": replace(frame.graph, code=frame.graph.code.replace("torch.relu", "torch.abs"))}),
        ("recompilation", lambda frame: {"failed_guards": (FailedGuard("0/0", "planted"),)}),
        ("guards", lambda frame: {"guards": frame.guards[:-1]}),
        ("frame", lambda frame: {"status": "failed", "skip_reason": "planted"}),
    ],
)  # fmt: skip
def test_a_planted_difference_is_found(record, aspect, change):
    """A break, an operator, a recompilation, a guard or a frame of one side only is the only difference."""
    other = changed(record, 0, **change(record.frames[0]))
    assert other != record
    found = compared(record, other)
    assert {each.aspect for each in found.differences} == {aspect}
    assert record.frames[0].id in found.differences[0].place


def test_a_frame_that_only_one_has(record):
    """A frame without a counterpart is a difference on each side."""
    fewer = replace(record, frames=record.frames[:-1])
    for both in ((record, fewer), (fewer, record)):
        (found,) = compared(*both).differences
        assert found.aspect == "frame"
        assert "not compiled" in (found.ours, found.theirs)


def test_results_come_first(record):
    """A wrong result, and a process that ended early, come first."""
    other = changed(record, 0, breaks=())
    wrong, late = EngineRun(difference="call 1: value 0: differs"), EngineRun(failure="did not end within 3 seconds")
    found = compared(record, other, wrong, late)
    assert [each.aspect for each in found.differences] == ["result", "graph break"]
    assert (found.differences[0].ours, found.differences[0].theirs) == (wrong.difference, late.failure)


def test_ours_beside_torchs(record):
    """The frames of both compilers are aligned by line, with their operators and breaks."""
    ours = nbcompile.explain(traced)(torch.ones(4, 8), torch.ones(8, 4, requires_grad=True)).record
    frame = ours.frames[0]
    theirs = replace(record.frames[0], function=frame.function, file=frame.file, first_line=frame.first_line)
    found = compared(ours, replace(record, frames=(theirs,)))
    pair = found.frames[0]
    assert (pair.ours, pair.theirs) == (frame.id, theirs.id)
    assert pair.lines[1].ours.operators == ("operator.matmul", "torch.relu")
    assert pair.lines[2].ours.breaks
    assert not [each for each in found.differences if each.aspect == "graph"]
    assert [guard.status for guard in pair.guards].count(EQUAL) > 10
