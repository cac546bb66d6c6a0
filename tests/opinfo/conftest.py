"""Counts by dtype, printed at the end of a run of this folder."""

from __future__ import annotations

import collections

COUNTS = collections.defaultdict(collections.Counter)


def pytest_runtest_logreport(report):
    """Add one operator's outcome to its sweep's counts."""
    sweep = dict(report.user_properties).get("sweep")
    if sweep and report.when == "call":
        COUNTS[sweep]["known not to" if hasattr(report, "wasxfail") else report.outcome] += 1


def pytest_terminal_summary(terminalreporter):
    """Print the number of passed operators by dtype and direction."""
    if COUNTS:
        terminalreporter.section("operators, by dtype (docs/operators.md has the table of what does not pass, and why)")
    for sweep, counts in COUNTS.items():
        terminalreporter.line(f"{sweep}: {', '.join(f'{count} {outcome}' for outcome, count in counts.items())}")
