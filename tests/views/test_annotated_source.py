"""Notes at the lines of the user's function, and the carets of an exception."""

from __future__ import annotations

import torch

import nbcompile
from nbcompile.record import links
from nbcompile.record.model import StackLine
from nbcompile.views import annotated_source
from tests.views import sample_records as sample


def test_carets_stand_below_the_expression():
    """The carets are as long as the expression; without columns there are none."""
    assert annotated_source.carets(StackLine("f", 1, "f", "x = g(y)", 4, 8)) == "    ^^^^"
    assert annotated_source.carets(StackLine("f", 1, "f", "x = g(y)")) == ""


def test_every_line_shows_its_status():
    """Operators, their traffic, guards, the break and the resume point are at their lines."""
    record = sample.save_break()

    def notes(frame):
        lines = annotated_source.source_lines(record, frame, links.frame_links(frame))
        return {line.number: [note.kind for note in line.notes] for line in lines if line.notes}

    assert notes(record.frames[0]) == {2: ["operators", "cost", "guards"], 3: ["break", "guards"], 4: ["later"]}
    assert notes(record.frames[1]) == {
        3: ["resume"],
        4: ["operators", "cost", "guards"],
        5: ["guards"],
    }


seen = []


def noting(x):
    seen.append(1)
    return x.sin()


def test_a_side_effect_goes_by_the_users_name():
    """The residual program has a generated name; the note at the line has the user's name."""
    record = nbcompile.explain(noting, backend="eager")(torch.ones(3)).record
    frame = record.frames[0]
    assert [annotated_source.replayed(frame, each) for each in frame.mutations] == [("seen", "seen.extend([1])")]
    lines = annotated_source.source_lines(record, frame, links.frame_links(frame))
    assert "replayed: seen.extend([1])" in [note.text for line in lines for note in line.notes]


def test_every_line_shows_how_it_runs():
    """A line runs as a generated kernel or through ATen; after a break it names the frame that compiles it."""

    def told(record, kind):
        frame = record.frames[0]
        lines = annotated_source.source_lines(record, frame, links.frame_links(frame))
        return {line.number: note.text for line in lines for note in line.notes if note.kind == kind}

    assert told(sample.simple(), "kernels") == {2: "in kernel0", 3: "in kernel0", 4: "in kernel0"}
    assert told(sample.mutating(), "fallback") == {6: "mm by ATen"}
    assert told(sample.save_break(), "later") == {4: "pow, truediv in 1/0"}


def test_carets_end_with_the_line():
    """The carets end with the line, although a record from a file may have any columns."""
    assert annotated_source.carets(StackLine("f", 1, "f", "x = g(y)", 4, 10**30)) == "    ^^^^"
