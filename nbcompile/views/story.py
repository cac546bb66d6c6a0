"""The story of a cell in plain sentences, above all tables and pictures.

    The whole function is one frame and one graph. Its 4 operators run as 1 generated kernel.

    2 frames compiled, of 2 code objects. 1 distinct graph break ended 1 frame.
    `f` stops at line 3, which runs as plain Python: Attempted to call function marked as skipped. The rest of it is
    `torch_dynamo_resume_in_f_at_3`.

What happened most is told first, a few things of each kind; the sections below have them all.

In torch: nothing. Read next: nbcompile/views/facts.py
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from nbcompile.record import links
from nbcompile.record.model import LOADED, Record
from nbcompile.views import facts, figures
from nbcompile.views.facts import count

FEW = 3
"""So many breaks and recompilations are told one by one."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, or two; code in it stands between backticks."""

    text: str
    reference: str = ""
    """What its numbers count (figures.py)."""


def of(record: Record) -> list[Sentence]:
    """The summary in words."""
    told = [Sentence(outcome(record), figures.of_sentence(record))]
    told += _work(record)
    told += _loaded(record)
    told += islice(_breaks(record), FEW)
    told += islice(_recompilations(record), FEW)
    told += islice(_left_alone(record), FEW)
    return told


def outcome(record: Record) -> str:
    """How many frames were compiled, and what ended them."""
    if not record.frames:
        return "Nothing was compiled: code from before answered each call, or none was caught."
    compiled = sum(each.status == "compiled" for each in record.frames)
    breaks = links.distinct_breaks(record)
    if not compiled:
        return "No frame was compiled: everything ran as plain Python."
    if len(record.frames) == 1 and not breaks:
        if record.frames[0].graph is None:
            return "The whole function is one frame; no operator was met, so it has no graph."
        return "The whole function is one frame and one graph."
    said = f"{count(compiled, 'frame')} compiled, of {count(len(links.entries(record)), 'code object')}"
    if breaks:
        ended = sum(len(each.frames) for each in breaks)
        return f"{said}. {count(len(breaks), 'distinct graph break')} ended {count(ended, 'frame')}."
    return f"{said}."


def _work(record: Record) -> Iterator[Sentence]:
    compiled = [each for each in record.frames if each.status == "compiled"]
    operators = sum(len(links.operators(each.graph)) for each in compiled if each.graph)
    kernels = [kernel for each in record.frames if each.compiled_graph for kernel in each.compiled_graph.kernels]
    if not operators or not kernels:
        return
    called = sum(each.language == "aten" for each in kernels)
    parts = [
        (len(kernels) - called, "generated kernel", f"frames.{figures.KERNELS}"),
        (called, "ATen call", f"frames.{figures.CALLS}"),
    ]
    work = " and ".join(count(number, noun) for number, noun, _ in parts if number)
    references = (f"{figures.GRAPHS}.{figures.OPERATORS}", *(each for number, _, each in parts if number))
    learns = any(graph.stage == "backward" for each in compiled for graph in links.graphs(each))
    them = count(operators, "operator") + (" and what autograd needs of them" if learns else "")
    yield Sentence(f"{them} {'runs' if operators == 1 and not learns else 'run'} as {work}.", " ".join(references))


def _loaded(record: Record) -> Iterator[Sentence]:
    """What was not compiled for this cell, but by a process before this one."""
    loaded = [each for each in record.frames if each.cause == LOADED]
    names = list(dict.fromkeys(f"`{each.function}`" for each in loaded))
    if loaded and len(loaded) == len(record.frames):
        yield Sentence(
            "All of it was loaded from the store, where an earlier process left it: nothing was compiled now."
        )
    elif names:
        named = ", ".join(names[:FEW]) + (" and others" if len(names) > FEW else "")
        yield Sentence(f"Loaded from the store, where an earlier process left it: {named}.")


def _breaks(record: Record) -> Iterator[Sentence]:
    """Where each distinct break is, in the function whose graph it ended first."""
    frames = {each.id: each for each in record.frames}
    for each in links.distinct_breaks(record):
        frame = frames[each.frames[0]]
        line = links.own_line(frame, each.cause.stack)
        if frame.status != "compiled" or line is None or frame.breaks[0].stack != each.cause.stack:
            continue
        rest = next((one.name for one in frame.resume_functions if not one.branch), "")
        goes_on = f" The rest of it is `{rest}`." if rest else ""
        inner = each.cause.stack[-1].function
        why = f"in whose call `{inner}` breaks" if len(each.cause.stack) > 1 else "which runs as plain Python"
        yield Sentence(
            f"`{frame.function}` stops at line {line}, {why}: {each.cause.title.rstrip('.')}.{goes_on}",
            figures.of_end(frame, figures.of_frame(record, frame)),
        )


def _recompilations(record: Record) -> Iterator[Sentence]:
    for frame in record.frames:
        if frame.failed_guards:
            no = facts.refusal(record, frame.failed_guards[0])
            values = f" (expected `{no.expected}`, came `{no.actual}`)" if no.expected and no.actual else ""
            where = f", dimension `{no.dimension}`" if no.dimension else ""
            again = "was loaded for other values" if frame.cause == LOADED else "was compiled again"
            yield Sentence(f"`{frame.function}` {again}, for `{no.entry}` refused a call{values}: {no.what}{where}.")


def _left_alone(record: Record) -> Iterator[Sentence]:
    for frame in record.frames:
        if frame.status != "compiled":
            yield Sentence(f"`{frame.function}` {facts.ended_by(frame, ()).rstrip('.')}.")
