"""The records that views are tested on say what the compiler says of the same programs now.

Their texts are shortened, and stay the same on every machine and version of Python, as the pages that were agreed on are
made of them; what happened is compared with a compile.
"""

from __future__ import annotations

import re

import pytest
import torch

from nbcompile import errors
from nbcompile.driver import stages
from nbcompile.record.model import CompiledFrame, Record
from tests.views import sample_records as sample
from tests.views.recorded import recorded, recorded_calls

NESTED_SOURCE = "\n".join(source for _, source in sample.NESTED_SOURCES.values())
RECORDS = {
    "simple": (sample.simple, sample.SIMPLE_SOURCE, (2.0,), {"dynamic": False, "backend": "eager"}),
    "save_break": (sample.save_break, sample.SAVE_SOURCE, (), {"backend": "eager"}),
    "nested": (sample.nested, NESTED_SOURCE, (), {"backend": "eager"}),
}


def course(record: Record) -> list[tuple[object, ...]]:
    """Which frames were compiled, why, in what order, and how they are connected."""
    return [
        (
            frame.id,
            frame.function,
            frame.file,
            frame.status,
            frame.cause,
            frame.called_from,
            frame.resumes,
            frame.inlined,
        )
        for frame in record.frames
    ]


def operators(frame: CompiledFrame) -> list[tuple[object, ...]]:
    """Each node of the captured graph, and the line of the program that it is from."""
    assert frame.graph is not None
    return [
        (
            node.id,
            node.name,
            node.op,
            node.target,
            node.arguments,
            node.inputs,
            *(line.code for line in node.stack[-1:]),
        )
        for node in frame.graph.nodes
        if node.op != "output"
    ]


def broken(frame: CompiledFrame) -> list[tuple[object, ...]]:
    """Each graph break in the compiler's words, but for the folder of torch's files."""
    return [
        (found.id, found.kind, found.title, found.hints, found.gb_id, [(line.line, line.code) for line in found.stack])
        for found in frame.breaks
    ]


def sentences(frame: CompiledFrame) -> set[tuple[str, str, str]]:
    """Each guard: its kind, what it is about, and in words, but for the length of the tensor."""
    return {(guard.kind, guard.source, guard.words.replace("(1024)", "(8)")) for guard in frame.guards}


@pytest.mark.parametrize("name", RECORDS)
def test_what_happened_is_what_a_compile_says(name):
    """Frames, graphs, breaks, resume functions; and every guard that the sample has."""
    make, source, more, options = RECORDS[name]
    ours, now = make(), recorded(source, "f", *more, **options)
    assert course(ours) == course(now)
    for frame, other in zip(ours.frames, now.frames, strict=True):
        assert operators(frame) == operators(other)
        assert broken(frame) == broken(other)
        assert [(made.name, made.line) for made in frame.resume_functions] == [
            (made.name, made.line) for made in other.resume_functions
        ]
        assert sentences(frame) <= sentences(other)


CALLS = [(torch.ones(1024), 2.0), (torch.ones(2048), 2.0), (torch.ones(2048), 3.0)]
STEP = f"class Model:\n    pass\n\n{sample.STEP_SOURCE}"


def test_recompilations_are_what_three_calls_make():
    """Which entry refused each, by which kind of guard, in which words, what was expected; graphs, sizes, programs that run."""

    def refusals(record: Record) -> list[list[tuple[str, ...]]]:
        kinds = {guard.id: guard.kind for frame in record.frames for guard in frame.guards}
        return [
            [(failed.compile_id, kinds[failed.guard], failed.reason, failed.expected) for failed in frame.failed_guards]
            for frame in record.frames
        ]

    ours, now = sample.recompiled(), recorded_calls(sample.SIMPLE_SOURCE, "f", lambda cell: CALLS)

    def program(frame: CompiledFrame) -> str:
        """The residual program, without the numbers of names that it shares with other programs of the process."""
        return re.sub(r"(graph_out|__compiled_fn)_\d+", r"\1", frame.residual).strip()

    assert refusals(ours) == refusals(now)
    for frame, other in zip(ours.frames, now.frames, strict=True):
        assert operators(frame) == operators(other)
        assert [each.shape for each in frame.graph.nodes] == [each.shape for each in other.graph.nodes]
        assert program(frame) == program(other)
    assert [(frame.id, frame.status, frame.cause) for frame in ours.frames] == [
        (frame.id, frame.status, frame.cause) for frame in now.frames
    ]


def test_a_skipped_frame_is_what_a_break_in_a_loop_makes(capsys):
    """Status, reason, what ran instead, and the break in the compiler's words."""
    (ours, _), (now,) = (
        sample.skipped().frames,
        recorded_calls(sample.LOOP_SOURCE, "loop", lambda cell: [(torch.ones(2),)]).frames,
    )
    for field in ("id", "status", "cause", "skip_reason", "instead", "source"):
        assert getattr(ours, field) == getattr(now, field), field
    assert broken(ours)[0][1:] == broken(now)[-1][1:]


def test_a_failed_frame_is_what_an_internal_error_makes(monkeypatch):
    """An error of the compiler is the reason, and the frame runs eagerly."""
    _, ours = sample.skipped().frames

    def fail(*arguments):
        raise RuntimeError("no lowering for prims.frobnicate")

    monkeypatch.setattr(stages.guarding, "build_check", fail)
    with pytest.warns(errors.InternalErrorWarning):
        (now,) = recorded_calls("def helper(x):\n    return x + 1\n", "helper", lambda cell: [(torch.ones(2),)]).frames
    for field in ("status", "skip_reason", "instead"):
        assert getattr(ours, field) == getattr(now, field), field


def test_a_mutation_is_what_an_assignment_makes():
    """Kind, target and replayed statement; the guard on the value that was read, in words."""

    def calls(cell):
        model = cell["Model"]()
        model.count, model.weight = 0, torch.ones(8, 2)
        return [(model, torch.ones(4, 8))]

    (ours,), (now,) = sample.mutating().frames, recorded_calls(STEP, "step", calls).frames
    assert [(found.kind, found.target, found.code) for found in ours.mutations] == [
        (found.kind, found.target, found.code) for found in now.mutations
    ]
    assert sentences(ours) <= sentences(now)
    assert {node[1:4] for node in operators(ours)} == {node[1:4] for node in operators(now)}
