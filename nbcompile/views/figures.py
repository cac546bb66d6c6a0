"""Provenance of the numbers on a page: an element with numbers has references to the counted items, in order.

    <li data-r="frames[status=compiled].guards">5 guards</li>      from the record
    <small data-r="guards">5, all checked before each call</small>   inside a frame: from that frame

A reference is a path of fields; a list in the path is iterated over, a number in the path selects one item, and
``[field=value]``, ``!=`` and ``^=`` (begins with) keep some. The figure is the number of selected items, or the number
at this position. The words after ``|`` are listed below; ``=2`` is a number that is not from the record. The rows of a
table need no reference: they begin with the name of their subject.

In torch: nothing. Read next: nbcompile/views/facts.py; tests/views/test_figures.py follows each reference
"""

from __future__ import annotations

from nbcompile.record import links
from nbcompile.record.model import CompiledFrame, Record

OPERATORS = "nodes[op^=call_]"
GRAPHS = "frames[status=compiled].graph"
KERNELS = "compiled_graph.kernels[language!=aten]"
CALLS = "compiled_graph.kernels[language=aten]"
DISTINCT = "frames.breaks|distinct"
"""Breaks with the same cause are one."""
ENDED = "frames.breaks|ended"
"""Pairs of a distinct break and a frame that it ended."""
CODES = "frames|codes"
"""Compile ids with the same first part are of one code object."""
RECOMPILED = "frames|recompiled"
"""Frames that were compiled because guards of older entries failed: a failed attempt at the limit is none."""


def of_sentence(record: Record) -> str:
    """Provenance of the numbers in :func:`cell_summary.outcome`."""
    breaks = links.distinct_breaks(record)
    compiled = any(each.status == "compiled" for each in record.frames)
    # These sentences have no numbers: "nothing was compiled", "the whole function is one frame".
    if not compiled or (len(record.frames) == 1 and not breaks):
        return ""
    return f"frames[status=compiled] {CODES}" + (f" {DISTINCT} {ENDED}" if breaks else "")


def of_end(frame: CompiledFrame, path: str = "") -> str:
    """Line of the frame's first break, if :func:`facts.ended_by` has one."""
    compiled = frame.status == "compiled" and frame.breaks
    return f"{path}|end" if compiled and links.own_line(frame, frame.breaks[0].stack) is not None else ""


def of_frame(record: Record, frame: CompiledFrame) -> str:
    """The path of a frame."""
    return f"frames.{next(index for index, each in enumerate(record.frames) if each is frame)}"
