"""The records that views are tested on say what the compiler says of the same programs now.

Their texts are shortened, and stay the same on every machine and version of Python, as the pages that were agreed on are
made of them; what happened is compared with a compile.
"""

from __future__ import annotations

import pytest

from nbcompile.record.model import CompiledFrame, Record
from tests.views import sample_records as sample
from tests.views.recorded import recorded

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
