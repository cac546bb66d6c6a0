"""Sentences about graph breaks: how a frame ended, what the line calls, how often one break was hit.

    ended_by(frame, distinct)      "ended by graph break B1 at line 7"
    what_breaks(graph_break)       "calls `torch.save`, which is not traced"

In torch: torch/_dynamo/exc.py (``format_graph_break_message``). Read next: nbcompile/views/facts.py
"""

from __future__ import annotations

import itertools
import re

from nbcompile.record import links, model
from nbcompile.record.model import (
    Break,
    CompiledFrame,
    Record,
)
from nbcompile.views.facts import count


def break_label(index: int) -> str:
    """Label of a distinct break on the page."""
    return f"B{index + 1}"


def ended_by(frame: CompiledFrame, distinct: tuple[links.DistinctBreak, ...]) -> str:
    """End of a frame, in words."""
    why = f": {named_once(frame.skip_reason)}" if frame.skip_reason else ""
    # Outcome of the call: it ran eagerly, it raised, or its compilation was interrupted.
    match frame.status, frame.instead:
        case "skipped", _:
            return f"ran eagerly as a whole{why}"
        case "failed", model.EAGER:
            return f"compilation failed, and it ran eagerly{why}"
        case "failed", model.RAISED:
            return f"did not run{why}"
        case "failed", model.INTERRUPTED:
            return f"did not run: compilation was {frame.skip_reason or 'interrupted'}"
        case "failed", _:
            return f"compilation failed{why}"
    if frame.breaks:
        graph_break = frame.breaks[0]
        line = links.own_line(frame, graph_break.stack)
        at = f" at line {line}" if line is not None else ""
        return f"ended by graph break {break_label(links.cause_of(graph_break, distinct))}{at}"
    return "ran to its return"


def named_once(reason: str) -> str:
    """A reason without a repetition of its first words (``graph break: graph break in loop``), and in plain words."""
    return re.sub(r"^graph break: (?=graph break)", "", _IN_PLAIN_WORDS.get(reason, reason))


_IN_PLAIN_WORDS = {
    f"graph break: {title}": "an operator fails while it is traced, and Python runs it"
    for title in (
        "NotImplementedError/UnsupportedFakeTensorException when running FX node",
        "TypeError when making fake tensor call",
    )
}
"""Titles of torch that name its own classes."""


def is_chain(frame: CompiledFrame) -> bool:
    """Return whether a nested break ended it: each inlined function has its own resume function."""
    return len(frame.resume_functions) > 1 and not frame.resume_functions[-1].branch


def repeated(record: Record, distinct: links.DistinctBreak) -> str:
    """Number of times that one break was hit, and why: by every caller, if each frame is called by the one before."""
    frames = [frame for frame in record.frames if frame.id in distinct.frames]
    text = f"one cause, {count(len(frames), 'frame')} ended by it"
    stacks = [frame.breaks[0].stack for frame in frames]
    # Without nested graph breaks a break in an inlined function ends every frame on the stack,
    # one compile after another.
    # f calls g, and g breaks: the stacks are (f, g) and (g). Each stack is the one before without its outermost call.
    if len(frames) == 1 or any(below != above[1:] for above, below in itertools.pairwise(stacks)):
        return text
    reason = "since every caller encounters it again"
    return f"{text}, {reason}. With config.nested_graph_breaks it is encountered once, in `{frames[0].function}`"


def what_breaks(graph_break: Break) -> str:
    """Description of the breaking line: ``calls `torch.save`, which is not traced``; "" if it is not a call."""
    if not graph_break.callee:
        return ""
    title = graph_break.title.rstrip(".").replace("`", "")
    return call_of(graph_break) + _WHY_CALLED.get(graph_break.kind, f" ({title})")


def call_of(graph_break: Break) -> str:
    """``calls `torch.save` ``; "" where the breaking line calls nothing."""
    callee = graph_break.callee.replace("`", "'")
    return f"calls `{callee if len(callee) <= MOST_CALLEE else '…' + callee[1 - MOST_CALLEE :]}`" if callee else ""


_NOT_TRACED = dict.fromkeys(("NB0002", "NB0003", "NB0009", "NB0010", "NB0017", "NB0021"), ", which is not traced")
_WHY_CALLED = {
    **_NOT_TRACED,
    "NB0001": ", which ends the graph",
    "NB0004": ", which is not traced with these arguments",
    "NB0024": ", which skips the frame",
    "NB0025": ", which skips the rest of the frame",
}
"""Kinds of breaks whose title has no further information."""
MOST_CALLEE = 48
"""Characters of a callee: the end of a long one is the most specific part."""


def break_ids(graph_break: Break) -> str:
    """``NB0007 · GB0025``."""
    return " · ".join(filter(None, (graph_break.kind, graph_break.gb_id)))
