"""Processor time of tests: which are slow, and their share of the suite.

    pytest --times build/times.tsv tests          seconds of processor time, a tab, the test; a line for each test
    python -m tests.timing build/times.tsv        the lines of tests/slow_tests.txt, which rotation.py reads

Time of the processor and not of the clock: two workers share two cores, and other programs may run beside them. The
time of a child counts for the test that waits for its end.
"""

from __future__ import annotations

import collections
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SLOW = 4.0
"""Seconds of all cases of a test function together, from which on it rotates."""
ALWAYS = ("tests/test_house.py", "tests/test_road.py")
"""Rules for the source: a commit that breaks one is found at once."""
PARTS = ((40.0, 4), (12.0, 3), (SLOW, 2))
"""From how many seconds on, into how many parts a test function is divided."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--times FILE`` appends the processor time of each test to a file."""
    parser.addoption("--times", metavar="FILE", help="append the processor time of each test to this file")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Measure a test, its fixtures, and its child processes."""
    file = item.config.getoption("--times")
    before = seconds()
    try:
        return (yield)  # type: ignore[return-value]
    finally:
        if file:
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            # One write of one line at the end of the file: lines of two workers do not mix.
            with Path(file).open("a") as out:
                out.write(f"{seconds() - before:.3f}\t{item.nodeid}\n")


def seconds() -> float:
    """The processor time of this process and of its ended children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def slow_tests(lines: Iterator[str]) -> Iterator[tuple[int, float, str]]:
    """The parts, seconds and name of each slow test function, slowest first."""
    total: dict[str, float] = collections.defaultdict(float)
    for line in lines:
        time, _, name = line.rstrip("\n").partition("\t")
        total[name.partition("[")[0]] += float(time)
    for name, time in sorted(total.items(), key=lambda item: (-item[1], item[0])):
        if time >= SLOW and not name.startswith(ALWAYS):
            yield next(parts for least, parts in PARTS if time >= least), time, name


if __name__ == "__main__":
    for parts, _, name in slow_tests(iter(Path(sys.argv[1]).read_text().splitlines())):
        sys.stdout.write(f"{parts} {os.path.normpath(name)}\n")
