"""Terminal output of the commands: colours, progress, elapsed time."""

from __future__ import annotations

import os
import re
import sys
import threading
import time

from nbcompile.tools.commands import terminal


def test_colours_on_a_terminal_only(monkeypatch):
    """A pipe, and a terminal with NO_COLOR, get plain text."""

    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert terminal.paint("x", "red", Terminal()) == "\033[31mx\033[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert terminal.paint("x", "red", Terminal()) == "x"
    monkeypatch.delenv("NO_COLOR")
    with open(os.devnull, "w") as pipe:
        assert terminal.paint("x", "red", pipe) == "x"


def test_a_progress_bar_after_a_second(monkeypatch, capsys):
    """On a terminal, a progress bar appears after a second; the items do not change."""
    ticks = iter(range(10))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert list(terminal.progress("abc", "working", clock=lambda: next(ticks))) == ["a", "b", "c"]
    assert "working [" in capsys.readouterr().err


def test_the_time_of_what_has_no_parts(monkeypatch, capsys):
    """On a terminal the elapsed time is shown, and removed at the end; elsewhere there is no thread."""
    before = threading.active_count()
    with terminal.waiting("compare", seconds=0.01):
        assert threading.active_count() == before
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with terminal.waiting("compare", seconds=0.01):
        time.sleep(0.2)
    assert re.fullmatch(r"(\rcompare: \d+ s)+\r\x1b\[K", capsys.readouterr().err)
