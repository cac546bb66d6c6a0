"""``%compile_live``: the frames that are compiled during a long training, in one output that is updated.

    %compile_live           shows counters and the last frames; they change while later cells run
    train()
    %compile_live stop      the output stays as it is

In torch: nothing; TORCH_LOGS prints lines into the training's own output. Read next: nbcompile/observe/metrics.py
"""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class
from IPython.display import DisplayHandle, display

from nbcompile.observe.metrics import Metrics
from nbcompile.record import recorder
from nbcompile.record.model import CompiledFrame, Timing
from nbcompile.views import assets
from nbcompile.views.markup import chip, code, join, row, table, tag

LAST = 20
"""Frames that are listed."""


class LiveOutput:
    """A subscriber that shows each finished frame."""

    def __init__(self) -> None:
        self.counts = Metrics()
        self.counts.counting = True
        self.entries: Counter[str] = Counter()
        self.last: deque[tuple[CompiledFrame, int]] = deque(maxlen=LAST)
        self.handle: DisplayHandle | None = display(self, display_id=True)

    def wants_frames(self) -> bool:
        """Every frame is shown."""
        return True

    def wants_steps(self) -> bool:
        """Steps are not shown."""
        return False

    def during(self, compile_id: str) -> contextlib.AbstractContextManager[None]:
        """No-op: nothing is needed while a frame is compiled."""
        return contextlib.nullcontext()

    def receive(self, frame: CompiledFrame, timings: Sequence[Timing]) -> None:
        """Count a frame and show it."""
        self.counts.receive(frame, timings)
        code_object = frame.id.partition("/")[0]
        # Counted here: the record of a frame has its own status, and not the current number of entries of its code.
        self.entries[code_object] += frame.status == "compiled"
        self.last.appendleft((frame, self.entries[code_object]))
        if self.handle is not None:
            self.handle.update(self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        del include, exclude
        return {"text/plain": self.text(), "text/html": self.html()}

    def numbers(self) -> dict[str, Any]:
        """Counters, in the order in which they are shown."""
        counts = self.counts.snapshot()
        return {
            "frames": sum(counts["frames"].values()),
            "recompilations": sum(counts["recompilations"].values()),
            "cache entries": self.entries.total(),
            "graph breaks": sum(counts["graph_breaks"].values()),
            "operators": counts["operators"],
            "kernels": sum(number for language, number in counts["kernels"].items() if language != "aten"),
            "ATen calls": counts["kernels"].get("aten", 0),
        }

    def text(self) -> str:
        """The output as text."""
        head = ", ".join(f"{name}: {count}" for name, count in self.numbers().items())
        lines = [
            f"  {frame.id:<6} {frame.function}: {frame.status}, {growth(frame, entries)}, {reason(frame)}"
            for frame, entries in self.last
        ]
        return "\n".join([f"nbcompile: {head}", *lines])

    def html(self) -> str:
        """The output as HTML."""
        tiles = [tag("li", tag("b", count), f" {name}") for name, count in self.numbers().items()]
        tones = {"compiled": "ok", "skipped": "warn", "failed": "bad"}
        rows = [
            row(tag("th", code(frame.id)), code(frame.function), chip(frame.status, tones.get(frame.status, "")),
                growth(frame, entries), reason(frame))
            for frame, entries in self.last
        ]  # fmt: skip
        listed = table(f"The last {LAST} frames, newest first", ("id", "function", "status", "cache", "why"), rows)
        title = tag("p", tag("b", "nbcompile"), " live", class_="n-title")
        body = tag("div", tag("header", title, tag("ul", tiles, class_="n-tiles")), listed, class_="nbc")
        return str(join((assets.styles(), body)))


def growth(frame: CompiledFrame, entries: int) -> str:
    """Number of cache entries of the function, and the limit."""
    limit = f" of {frame.recompile_limit}" if frame.recompile_limit else ""
    return f"{entries}{limit} {'entry' if entries == 1 and not limit else 'entries'}"


def reason(frame: CompiledFrame) -> str:
    """Reason for compiling a frame, and the reason for its end."""
    cause = f"recompiled: {frame.failed_guards[0].reason}" if frame.failed_guards else frame.cause
    ends = [f"graph break: {found.title}" for found in frame.breaks]
    return "; ".join(filter(None, (cause, *ends, frame.skip_reason)))


@magics_class
class LiveMagics(Magics):
    """``%compile_live``."""

    _shown: LiveOutput | None = None

    @line_magic
    def compile_live(self, line: str) -> None:
        """Show what is compiled from here on, as it happens; ``%compile_live stop`` ends it."""
        if line.strip() not in ("", "stop"):
            raise UsageError(f"%compile_live takes no argument but stop, and not {line.strip()!r}")
        self.stop()
        if not line.strip():
            self._shown = LiveOutput()
            recorder.subscribers.append(self._shown)

    def stop(self) -> None:
        """Show no further frames."""
        if self._shown is not None:
            recorder.subscribers.remove(self._shown)
            self._shown = None
