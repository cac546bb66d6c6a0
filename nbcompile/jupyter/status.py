"""Status line during a long compilation: the function, the stage and the time.

    nbcompile: 0/0 f, build, 3.2 s          in the cell's output; the view replaces it

A thread reads the recorder periodically. The compiler does not depend on it, and short compilations show no line.

In torch: nothing; the cell is silent for as long as it takes. Read next: nbcompile/record/recorder.py
"""

from __future__ import annotations

import contextvars
import sys
import threading
import time
from types import TracebackType
from typing import Self

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import DisplayHandle, display

from nbcompile.record.recorder import Phase, Recorder
from nbcompile.views.markup import escaped

PATIENCE = 1.0
"""Seconds after which a compilation is long."""
PERIOD = 0.25
"""Seconds between two updates."""


class Status:
    """Status line for a recorder, while the ``with`` block runs."""

    def __init__(self, frame_recorder: Recorder, shell: InteractiveShell) -> None:
        self._frame_recorder = frame_recorder
        self._in_notebook = getattr(shell, "kernel", None) is not None
        self._ends = threading.Event()
        self._handle: DisplayHandle | None = None
        self._line_shown = ""
        # The output belongs to the running cell, which the kernel stores in a context variable.
        watch = contextvars.copy_context().run
        self._thread = threading.Thread(target=watch, args=(self._watch,), name="nbcompile status", daemon=True)

    def __enter__(self) -> Self:
        if self._in_notebook or sys.stderr.isatty():
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ends.set()
        if self._thread.ident is not None:
            self._thread.join()
        if self._line_shown and not self._in_notebook:
            sys.stderr.write("\r\x1b[K")

    def replace(self, shown: object) -> None:
        """Replace the line by the view; without a line, show the view below the cell's output."""
        if self._handle is not None:
            self._handle.update(shown)
        else:
            display(shown)

    def clear(self) -> None:
        """Remove the line."""
        if self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)

    def _watch(self) -> None:
        while not self._ends.wait(PERIOD):
            phase = self._frame_recorder.active
            elapsed = 0.0 if phase is None else time.perf_counter() - phase.began
            if phase is not None and elapsed >= PATIENCE:
                self._show(line_of(phase, elapsed))

    def _show(self, text: str) -> None:
        self._line_shown = text
        if not self._in_notebook:
            sys.stderr.write(f"\r{text}\x1b[K")
            sys.stderr.flush()
            return
        data = {"text/plain": text, "text/html": f"<code>{escaped(text)}</code>"}
        if self._handle is None:
            self._handle = DisplayHandle()
            self._handle.display(data, raw=True)
        else:
            self._handle.update(data, raw=True)


def line_of(phase: Phase, elapsed: float) -> str:
    """The line."""
    return f"nbcompile: {phase.compile_id} {phase.function}, {phase.stage}, {elapsed:.1f} s"
