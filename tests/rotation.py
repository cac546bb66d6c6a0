"""Rotation: each run of the suite does a part of a family of slow tests; `make sweep` does the rest.

    @pytest.mark.rotates(3)              a third of the cases is run; the others are marked `slow`
    @pytest.mark.rotates(2, by="name")   likewise, and cases with one argument `name` stay together

Test functions of `tests/slow_tests.txt` rotate, too, each with its number of parts: they were measured (timing.py).
Which part it is depends on the source of the package alone: the same code is always tested the same way, and a few
commits later every case was run.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "nbcompile"
SLOW_TESTS = Path(__file__).parent / "slow_tests.txt"


def part_of(name: str, parts: int) -> int:
    """The part to which a case belongs."""
    return zlib.crc32(name.encode()) % parts


def turn(package: Path = PACKAGE) -> int:
    """A number that depends on the names and lengths of the package's files."""
    files = sorted(path for path in package.rglob("*") if path.suffix in (".py", ".c", ".cpp", ".h"))
    return zlib.crc32("".join(f"{path.relative_to(package)} {path.stat().st_size}\n" for path in files).encode())


def slow_tests() -> dict[str, int]:
    """Slow test functions by name, with their number of parts."""
    rows = (line.split() for line in SLOW_TESTS.read_text().splitlines() if not line.startswith("#"))
    return {name: int(parts) for parts, name in rows}


@pytest.hookimpl(tryfirst=True)  # before pytest deselects what is marked `slow`
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases of other parts as slow."""
    slow = slow_tests()
    for item in items:
        if (parts := slow.get(item.nodeid.partition("[")[0])) and not item.get_closest_marker("rotates"):
            item.add_marker(pytest.mark.rotates(parts))
    rotating = [
        (item, mark.args[0], mark.kwargs.get("by")) for item in items if (mark := item.get_closest_marker("rotates"))
    ]
    now = turn() if rotating else 0
    for item, parts, by in rotating:
        name = str(item.callspec.params[by]) if by else item.nodeid
        if part_of(name, parts) != now % parts:
            item.add_marker(pytest.mark.slow)
