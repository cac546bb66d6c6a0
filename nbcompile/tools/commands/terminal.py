"""Output of the commands: colours on a terminal only, JSON on request, errors in one line.

    print(terminal.paint("✓", "green"))      green on a terminal, plain in a pipe and where NO_COLOR is set
    terminal.print_json({"found": 3})
    for unit in terminal.progress(units, "ablate"): ...         a bar on stderr, on a terminal only
    with terminal.counting("bisect", "runs") as count: ...      an unknown number of parts: "bisect: 12 runs"
    with terminal.waiting("compare"): ...                       no parts: "compare: 12 s"

In torch: nothing. Read next: nbcompile/tools/commands/command_line.py
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

COLOURS = {"red": "31", "green": "32", "yellow": "33", "bold": "1", "dim": "2"}
FIRST_BAR_SECONDS = 1.0
"""A command that is shorter than this draws no progress bar."""
BAR_CHARACTERS = 24


def has_colours(stream: TextIO) -> bool:
    """True if a stream is a terminal that shows colours (https://no-color.org)."""
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str, stream: TextIO | None = None) -> str:
    """The text in a colour, where the stream (standard output) shows colours."""
    if not has_colours(sys.stdout if stream is None else stream):
        return text
    return f"\033[{COLOURS[colour]}m{text}\033[0m"


def print_json(data: Any) -> None:
    """Print one JSON document on standard output."""
    print(json.dumps(data, indent=2, ensure_ascii=False))


def print_error(message: object) -> None:
    """Print one message on standard error."""
    print(f"{paint('nbcompile:', 'red', sys.stderr)} {message}", file=sys.stderr)


def progress(items: Sequence[Any], title: str, clock: Callable[[], float] = time.monotonic) -> Iterator[Any]:
    """Iterate over items, with a bar on standard error after the first second, if that is a terminal."""
    started, drawn = clock(), False
    for number, item in enumerate(items):
        # On standard error, so that the output can be piped; no bars in a log file.
        if sys.stderr.isatty() and clock() - started >= FIRST_BAR_SECONDS:
            filled = BAR_CHARACTERS * number // len(items)
            bar = "#" * filled + "." * (BAR_CHARACTERS - filled)
            print(f"\r{title} [{bar}] {number}/{len(items)}", end="", file=sys.stderr, flush=True)
            drawn = True
        yield item
    if drawn:
        _clear()


@contextmanager
def counting(title: str, unit: str, clock: Callable[[], float] = time.monotonic) -> Iterator[Callable[[], None]]:
    """Provide a function that increments a counter, which is shown on standard error as by :func:`progress`."""
    started, number = clock(), 0

    def count() -> None:
        nonlocal number
        number += 1
        if sys.stderr.isatty() and clock() - started >= FIRST_BAR_SECONDS:
            print(f"\r{title}: {number} {unit}", end="", file=sys.stderr, flush=True)

    try:
        yield count
    finally:
        if sys.stderr.isatty() and number:
            _clear()


@contextmanager
def waiting(title: str, seconds: float = FIRST_BAR_SECONDS) -> Iterator[None]:
    """Show the elapsed time on standard error each second, for work without parts to count."""
    ended, began = threading.Event(), time.monotonic()

    def show() -> None:
        while not ended.wait(seconds):
            print(f"\r{title}: {time.monotonic() - began:.0f} s", end="", file=sys.stderr, flush=True)

    if not sys.stderr.isatty():
        yield
        return
    # A thread, as the work itself does not call this; a daemon, so that it never keeps the process alive.
    clock = threading.Thread(target=show, daemon=True)
    clock.start()
    try:
        yield
    finally:
        ended.set()
        clock.join()
        _clear()


def _clear() -> None:
    # Back to the beginning of the line, and delete to its end.
    print("\r\033[K", end="", file=sys.stderr, flush=True)
