"""Explanation: a record with its views; ``%%compile -o r`` binds one, ``explain(f)(...)`` returns one.

    r                        the view; an error in it is caught
    r.show("guards")         one section of it
    r.graphs, r.guards, r.breaks, r.recompiles, r.kernels      the parts, as data
    r.report("out.html")     everything, in one file
    r.record                 the data itself

In torch: ExplainOutput of torch/_dynamo/backends/debugging.py. Read next: nbcompile/views/html.py
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nbcompile.record import codec, links, reproducer
from nbcompile.record.model import Break, CompiledFrame, Graph, Guard, Kernel, Record
from nbcompile.views import chain, for_marimo, html, report, sections, text, timings

MOST_TEXT = 20_000
"""Characters: limit of an output's plain text, which is saved with the notebook in addition to the HTML."""


@dataclass(frozen=True)
class Explanation:
    """A record, the sections of it to show, and the outcome of the call: a value or an exception."""

    record: Record
    sections: tuple[str, ...] | None = None
    returned: Any = None
    """Return value of the function."""
    exception: Exception | None = None
    """Exception of the function."""
    comparison: Any = None
    """The :class:`ComparisonView` of ``%%compile --peer``."""
    profile: Any = None
    """The :class:`ProfileView` of ``%%compile --profile``."""
    latest: Callable[[], Record] | None = None
    """Function that returns the updated record: with a later backward pass, kernels compiled in the background."""

    def __repr__(self) -> str:
        return _drawn(lambda: text.render(self._current, self.sections, MOST_TEXT), self._current)

    def __str__(self) -> str:
        return _drawn(lambda: text.render(self._current, self.sections), self._current)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Both forms at once, so that a front end shows the richest that it can."""
        del include, exclude  # IPython filters; these are part of its protocol
        return {
            "text/plain": repr(self),
            "text/html": _drawn(lambda: html.render(self._current, self.sections), self._current),
        }

    def _display_(self) -> object:
        """Display protocol of marimo."""
        return for_marimo(self._current)

    def show(self, *names: str) -> Explanation:
        """Show other sections: ``show("guards")``, ``show("graph", "kernels")``; without names, the default ones.

        Raises:
            ValueError: a name that is no section; the message lists those there are.
        """
        listed = [name for each in names for name in each.split(",") if name]
        return replace(self, sections=sections.chosen(listed) if listed else None)

    @property
    def result(self) -> Any:
        """The value that the function returned; raises the exception of the function."""
        # Raised when the result is read, not before: the explanation of a failed call is useful, too.
        if self.exception is not None:
            raise self.exception
        return self.returned

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The captured graphs, one a compiled frame that has operators."""
        return tuple(frame.graph for frame in self._compiled() if frame.graph is not None)

    @property
    def guards(self) -> tuple[Guard, ...]:
        """All guards of all frames."""
        return tuple(guard for frame in self.record.frames for guard in frame.guards)

    @property
    def breaks(self) -> tuple[tuple[Break, int], ...]:
        """Each distinct break, and its number of occurrences."""
        # Resume functions and recompilations repeat a break; for a user it is one.
        return tuple((each.cause, len(each.breaks)) for each in links.distinct_breaks(self.record))

    @property
    def recompiles(self) -> tuple[CompiledFrame, ...]:
        """The frames that were compiled because the guards of older entries failed."""
        return tuple(frame for frame in self._compiled() if frame.failed_guards)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The generated kernels and the calls of ATen, graph by graph, with their current figures."""
        compiled = [frame.compiled_graph for frame in self._current.frames if frame.compiled_graph is not None]
        return tuple(kernel for each in compiled for kernel in each.kernels)

    @property
    def _current(self) -> Record:
        return self.record if self.latest is None else self.latest()

    def _compiled(self) -> list[CompiledFrame]:
        return [frame for frame in self.record.frames if frame.status == "compiled"]

    @property
    def graph_count(self) -> int:
        """Number of compiled graphs."""
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        """Number of distinct graph breaks, by kind and line of the user's code."""
        return len(self.breaks)

    @property
    def operators(self) -> tuple[tuple[str, ...], ...]:
        """The operators of each graph."""
        return tuple(tuple(node.target for node in links.operators(graph)) for graph in self.graphs)

    @property
    def seconds(self) -> dict[str, float]:
        """Time of each stage, summed over all frames."""
        total: dict[str, float] = {}
        for timing in self.record.timings:
            total[timing.stage] = total.get(timing.stage, 0.0) + timing.seconds
        return total

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
        """Write the residual program of a frame (the first) and of all its resume functions as one program."""
        Path(path).write_text(chain.program(self.record, frame), encoding="utf-8")
        return Path(path)

    def report(self, path: str | Path) -> Path:
        """Write the full report as one self-contained HTML file."""
        Path(path).write_text(report.of_record(self.record), encoding="utf-8")
        return Path(path)


def _drawn(draw: Callable[[], str], record: Record) -> str:
    # An error in the display must not lose the cell's result.
    try:
        return draw()
    except Exception as error:  # noqa: BLE001
        return f"nbcompile: {record.function} cannot be drawn: {type(error).__name__}: {error}"
