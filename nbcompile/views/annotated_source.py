"""Annotated source of a frame: the results of compilation for each line of the user's function.

    def f(x):
        y = x.sin()          sin · in sin_kernel
        print("half way")    graph break: Skipped builtin function

In torch: nothing. Read next: nbcompile/views/source.py
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from nbcompile.record import links
from nbcompile.record.model import (
    CompiledFrame,
    Mutation,
    Node,
    Record,
    StackLine,
)
from nbcompile.views import costs
from nbcompile.views.break_sentences import named_once
from nbcompile.views.facts import count, readable, short_target, shortened


@dataclass(frozen=True, slots=True)
class Note:
    """One event at a line."""

    kind: str
    """``operators``, ``kernels``, ``fallback``, ``cost``, ``inlined``, ``break``, ``mutation``, ``resume``,
    ``guards`` or ``later``."""
    text: str
    reference: str = ""
    """Provenance of its numbers (figures.py)."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the user's function with its notes."""

    number: int
    code: str
    notes: tuple[Note, ...]
    nodes: tuple[str, ...]
    """Captured nodes, by id."""
    elsewhere: bool
    """True for a line that this frame did not trace: before a resume function begins, or after a break."""
    carets: str = ""
    """Carets below the part of the line that raised."""


def source_lines(record: Record, frame: CompiledFrame, found: links.FrameLinks) -> tuple[SourceLine, ...]:
    """The annotated source of a frame; empty where its source is unknown."""
    if not frame.source:
        return ()
    notes = _notes(record, frame, found)
    resumed = links.resumed_function(record, frame)
    begins = resumed[1] if resumed else frame.first_line
    code = enumerate(frame.source.rstrip("\n").split("\n"), frame.first_line)
    return tuple(
        SourceLine(
            number, text, tuple(notes.get(number, ())), found.by_line.get(number, ()),
            # With loops, line numbers do not determine "after the break"; only lines that ran before are certain.
            elsewhere=frame.first_line < number < begins and number not in notes,
        )
        for number, text in code
    )  # fmt: skip


def _notes(record: Record, frame: CompiledFrame, found: links.FrameLinks) -> dict[int, list[Note]]:
    notes: dict[int, list[Note]] = {}

    def add(line: int | None, kind: str, text: str, reference: str = "") -> None:
        if line is not None:
            notes.setdefault(line, []).append(Note(kind, text, reference))

    resumed = links.resumed_function(record, frame)
    if resumed:
        add(resumed[1], "resume", f"resumes after {resumed[0].id} ended here")
    _operator_notes(frame, found, add)
    for mutation in frame.mutations:
        add(links.own_line(frame, mutation.stack), "mutation", f"replayed: {replayed(frame, mutation)[1]}")
    for graph_break in frame.breaks:
        add(links.own_line(frame, graph_break.stack), "break", named_once(f"graph break: {graph_break.title}"))
    # A guard belongs to the line that required it: the first use of a value, or a branch on a size.
    guarded = Counter(links.own_line(frame, guard.stack) for guard in frame.guards)
    for line, number in guarded.items():
        add(line, "guards", count(number, "guard"), f"guards|line.{line}")
    for later in resumed_frames(record, frame):
        for line, ids in links.frame_links(later).by_line.items():
            # Lines that this frame ran have its own notes; only the other lines are "later".
            if line not in found.by_line:
                ran = {node.id: node for node in links.operators(links.traced(later))}
                add(line, "later", f"{shortened(short_target(ran[node].target) for node in ids)} in {later.id}")
    return notes


def _operator_notes(frame: CompiledFrame, found: links.FrameLinks, add: Callable[..., None]) -> None:
    """Add notes on the operators that were traced at each line, and the kernels that run them."""
    nodes = {node.id: node for node in links.operators(links.traced(frame))}
    only_traced = "" if frame.graph else "traced, not compiled: "
    for line, ids in found.by_line.items():
        callees = dict.fromkeys(nodes[node].stack[-1].function for node in ids if _is_inlined(nodes[node], line))
        if callees:
            add(line, "inlined", "traced into " + ", ".join(callees))
        more = f"{'graph' if frame.graph else 'unfinished'}.nodes|line.{line}|beyond.5" if len(ids) > 5 else ""
        add(line, "operators", only_traced + shortened(short_target(nodes[node].target) for node in ids), more)
        kernels, fallbacks = _run_by(frame, found, ids)
        if kernels:
            add(line, "kernels", f"in {shortened(kernels, 3)}")
        if fallbacks:
            add(line, "fallback", f"{shortened(fallbacks, 3)} by ATen")
        if moved := costs.of_line(frame, ids):
            add(line, "cost", f"{costs.words(moved)} in eager", f"graph.nodes|bytes.{line}")


def replayed(frame: CompiledFrame, mutation: Mutation) -> tuple[str, str]:
    """The object that a side effect changes and the statement, by the user's name where the program has one of its own.

    ``value = calls`` and then ``value.extend([1])`` are ``calls.extend([1])``.
    """
    target = readable(mutation.target)
    # The residual program binds objects to names of its own before it changes them; readers know the user's names.
    given = re.search(rf"^\s*{re.escape(target)} = ([A-Za-z_][\w.\[\]'\"]*)$", frame.residual, re.MULTILINE)
    if given is None or not mutation.code.startswith((f"{target}.", f"{target}[")):
        return target, mutation.code
    return given[1], given[1] + mutation.code.removeprefix(target)


def _run_by(frame: CompiledFrame, found: links.FrameLinks, ids: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Kernels and extern calls that compute some captured nodes."""
    kernels = frame.compiled_graph.kernels if frame.compiled_graph else ()
    mine = [each for each in kernels if set(ids) & set(found.captured(each.id))]
    generated = [each.name for each in mine if each.language != "aten"]
    return generated, list(dict.fromkeys(short_target(each.name) for each in mine if each.language == "aten"))


def resumed_frames(record: Record, frame: CompiledFrame) -> tuple[CompiledFrame, ...]:
    """The frames that resume after a frame's end, each with the one after it; of the same function, in order."""
    found, ends = [], {frame.id}
    for resumed in record.frames:
        if resumed.resumes in ends and resumed.file == frame.file and resumed.first_line == frame.first_line:
            ends.add(resumed.id)
            found.append(resumed)
    return tuple(found)


def _is_inlined(node: Node, line: int) -> bool:
    return len(node.stack) > 1 and node.stack[-1].line != line


def carets(line: StackLine) -> str:
    """The underline of the expression inside the line; "" where its columns are unknown."""
    end = min(line.end_column, len(line.code))  # a record from a file may have any number
    if 0 <= line.column < end:
        return " " * line.column + "^" * (end - line.column)
    return ""
