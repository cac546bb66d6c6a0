"""Durations of the stages of a compilation: a table, and a trace for Perfetto and browsers.

    backend        9,203.1 ms  |=================|
      lowering        51.0 ms  |                 |
      build        9,120.4 ms  |================ |

Stages are listed below the stage that they are a part of; time that is not part of a compile (one evaluation of the
guards) is listed separately. ``chrome_trace`` writes the same as the JSON of the Chrome trace format.

In torch: tlparse's chromium events. Read next: nbcompile/record/recorder.py
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from markupsafe import Markup

from nbcompile.record.model import EACH_CALL, CompiledFrame, Record, Timing
from nbcompile.views.markup import join, row, section, table, tag


def render(record: Record, frame: CompiledFrame) -> Markup | None:
    """Render the durations as numbers and bars."""
    own = list(of_frame(record, frame))
    if not own:
        return None
    longest = max(each.seconds for _, each in own) or 1.0
    rows = [
        row(
            tag("th", "\N{NO-BREAK SPACE}" * 3 * depth, timing.stage),
            _milliseconds(timing.seconds).replace(" ", "\N{NO-BREAK SPACE}"),
            tag("meter", value=f"{timing.seconds / longest:.2g}"),
        )
        for depth, timing in own
    ]
    shown = table("Time of each stage", ("stage", "time", ""), rows, grid=True)
    return section(
        "timings",
        "Timings",
        shown,
        about=join(f"{_milliseconds(whole(record, frame))} in all"),
        figures="timings|whole",
    )


def as_text(record: Record, frame: CompiledFrame) -> Iterator[str]:
    """Durations as plain text."""
    for depth, timing in of_frame(record, frame):
        yield f"{'  ' * depth + timing.stage:<28} {_milliseconds(timing.seconds):>14}"


def of_frame(record: Record, frame: CompiledFrame) -> Iterator[tuple[int, Timing]]:
    """The timings of a frame, stages below their parents, with their depth; the cost of each call comes last."""
    own = [each for each in record.timings if each.frame == frame.id]
    known = {each.stage for each in own}

    def below(inside: str, depth: int) -> Iterator[tuple[int, Timing]]:
        for timing in own:
            if timing.inside == inside or (not inside and timing.inside not in (*known, EACH_CALL)):
                yield depth, timing
                # A stage inside of one with the same name would be its own part, in an infinite recursion.
                if timing.stage != inside:
                    yield from below(timing.stage, depth + 1)

    yield from below("", 0)
    yield from ((0, each) for each in own if each.inside == EACH_CALL)


def whole(record: Record, frame: CompiledFrame) -> float:
    """Seconds of all stages that are part of no other."""
    return sum(each.seconds for each in record.timings if each.frame == frame.id and not each.inside)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.2f} ms" if seconds >= 1e-4 else f"{seconds * 1e6:,.1f} µs"


def chrome_trace(record: Record) -> dict[str, Any]:
    """The stages as complete events, one row a frame; microseconds from the first."""
    spans = [each for each in record.timings if each.inside != EACH_CALL]
    start = min((each.began for each in spans), default=0.0)
    names = {frame.id: f"{frame.id} {frame.function}" for frame in record.frames}
    rows = {frame: number for number, frame in enumerate(dict.fromkeys(each.frame for each in spans), 1)}
    # "M" names a row; "X" is an event with a beginning and a duration.
    threads = [
        {"name": "thread_name", "ph": "M", "pid": 1, "tid": number, "args": {"name": names.get(frame, frame)}}
        for frame, number in rows.items()
    ]
    events = [
        {"name": span.stage, "cat": "compile", "ph": "X", "pid": 1, "tid": rows[span.frame],
         "ts": (span.began - start) * 1e6, "dur": span.seconds * 1e6,
         "args": {"frame": span.frame, "inside": span.inside}}
        # Of spans with the same beginning the longest is first, since it contains the others.
        for span in sorted(spans, key=lambda span: (span.began, -span.seconds))
    ]  # fmt: skip
    return {"traceEvents": [*threads, *events], "displayTimeUnit": "ms", "otherData": {"function": record.function}}
