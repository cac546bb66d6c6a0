"""What a cell shows: a record as a rich output that cannot fail.

    Shown(record, ("summary", "guards"))  ->  text/html   the picture
                                              text/plain  all of it in words

In torch: nothing. Read next: nbcompile/views/html.py
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nbcompile.record import codec
from nbcompile.record.model import Record
from nbcompile.views import chain, html, report, reproducer, text, timings


@dataclass(frozen=True, slots=True)
class Shown:
    """A record and the sections of it to show; what ``%%compile -o name`` binds."""

    record: Record
    show: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return _drawn(lambda: text.render(self.record, self.show), self.record)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Both forms at once, so that a front end shows the richest that it can."""
        del include, exclude  # IPython filters; these are part of its protocol
        return {
            "text/plain": repr(self),
            "text/html": _drawn(lambda: html.render(self.record, self.show), self.record),
        }

    def save(self, path: str | Path) -> Path:
        """Write the data itself as JSON; ``python -m nbcompile draw`` reads it."""
        Path(path).write_text(codec.to_json(self.record), encoding="utf-8")
        return Path(path)

    def trace(self, path: str | Path) -> Path:
        """Write how long each stage took in the Chrome trace format, for chrome://tracing and Perfetto."""
        Path(path).write_text(json.dumps(timings.chrome_trace(self.record)), encoding="utf-8")
        return Path(path)

    def reproducer(self, path: str | Path, frame: str = "") -> Path:
        """Write the graph of a frame (of the first that has one) as a program that compares compiled with eager."""
        known = [each for each in self.record.frames if (each.id == frame if frame else each.graph)]
        if not known:
            raise ValueError(f"there is no frame {frame!r}" if frame else "no frame of the record has a graph")
        Path(path).write_text(reproducer.script(known[0]), encoding="utf-8")
        return Path(path)

    def chain(self, path: str | Path, frame: str = "") -> Path:
        """Write what runs in place of a frame (of the first) and of all that it goes on with as one program."""
        Path(path).write_text(chain.program(self.record, frame), encoding="utf-8")
        return Path(path)

    def report(self, path: str | Path) -> Path:
        """Write everything that is known to one self-contained HTML file."""
        Path(path).write_text(report.of_record(self.record), encoding="utf-8")
        return Path(path)


def _drawn(draw: Callable[[], str], record: Record) -> str:
    # A picture is an extra: the cell's result stands, whatever happens to its picture.
    try:
        return draw()
    except Exception as error:  # noqa: BLE001
        return f"nbcompile: {record.function} cannot be drawn: {type(error).__name__}: {error}"
