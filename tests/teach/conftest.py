"""The last lines of a run count the exercises, and the accepted and rejected answers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

WORDS = {
    "exercise": "exercises", "accepted": "solutions accepted", "rejected": "wrong answers rejected",
    "accepted in lectures": "solutions accepted in lectures", "rejected in lectures": "answers rejected in lectures",
}  # fmt: skip


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Add up the counts of all processes."""
    counted: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") == "call":
                counted.update({name: number for name, number in report.user_properties if name in WORDS})
    if counted:
        terminalreporter.section("course")
        terminalreporter.write_line(
            ", ".join(f"{counted[name]} {words}" for name, words in WORDS.items() if name in counted)
        )
