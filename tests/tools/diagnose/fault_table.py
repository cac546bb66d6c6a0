"""Each planted fault through ablate, bisect and minify, as a table: who found it, in how many runs, how small it became.

    python -m tests.tools.diagnose.fault_table                     the table on standard output
    python -m tests.tools.diagnose.fault_table -o docs/design/planted_faults.md
    python -m tests.tools.diagnose.fault_table "relu as neg" "sin raises"

The exit code is 1 if a fault is not found by all three.
"""

from __future__ import annotations

import argparse
import inspect
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import nbcompile
from nbcompile.fast.disk_cache import storage
from nbcompile.tools.commands import terminal
from nbcompile.tools.diagnose import outcome, source
from nbcompile.tools.diagnose.ablate import ablate
from nbcompile.tools.diagnose.bisect import Bisection, bisect
from nbcompile.tools.diagnose.minify import NothingToMinify, minify
from tests.tools.diagnose import faults
from tests.tools.diagnose.faults import FAULTS, Fault

ROOT = Path(__file__).parents[3]
HEAD = """# Planted faults

Faults that are planted into the compiler (`tests/tools/diagnose/faults.py`), each given to the three tools that
look for a fault. *ablate*: the first rung of the ladder that changes. *bisect*: the decision that it names, and the
number of runs. *minify*: operators of the graph before and after, and the number of graphs that were tried; where no
graph is wrong by itself, the lines of the program's text. Seconds are those of all three together, the time of the
compiler and of g++ included.

    python -m tests.tools.diagnose.fault_table -o docs/design/planted_faults.md

| fault | ablate | bisect | runs | minify | tried | seconds |
|---|---|---|--:|---|--:|--:|
"""


@dataclass(frozen=True)
class Found:
    """The answers of the three tools for one fault."""

    fault: Fault
    rung: str
    bisection: Bisection
    size: tuple[str, str]
    """Before and after; two empty texts if nothing was found."""
    tried: int
    seconds: float

    @property
    def by_all(self) -> bool:
        """True if each tool names the planted fault."""
        culprit = self.bisection.culprit
        named = (
            culprit is not None
            and culprit.subsystem == self.fault.subsystem
            and self.fault.decision in culprit.decision
        )
        return self.rung == self.fault.rung and named and bool(self.size[1])

    def __str__(self) -> str:
        culprit = self.bisection.culprit
        named = f"{culprit.subsystem}: {culprit.decision}".replace(f"{ROOT}/", "") if culprit else "nothing"
        size = " → ".join(self.size) if self.size[1] else "nothing"
        cells = (self.fault.name, self.rung or "nothing", named, self.bisection.trials, size, self.tried)
        return f"| {' | '.join(map(str, cells))} | {self.seconds:.0f} |"


def look_for(fault: Fault) -> Found:
    """Plant one fault, and search for it with each tool."""
    began, arguments = time.perf_counter(), faults.arguments(fault)
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as entries:
        patch.setenv(storage.VARIABLE, entries)  # the wrong entry is in no other test's store
        fault.plant(patch)
        ladder = ablate(fault.program)(*arguments)
        slower = [row.rung for row in ladder.slower if row.rung == fault.rung]
        rung = ladder.first_change.rung if ladder.first_change else "".join(slower)
        bisection = bisect(fault.program, predicate=fault.predicate)(*arguments)
        try:
            small = minify(fault.program, predicate=fault.predicate)(*arguments)
            size, tried = (f"{small.nodes[0]} operators", f"{small.nodes[1]}"), small.trials
        except NothingToMinify:
            size, tried = _smallest_text(fault, arguments)
    return Found(fault, rung, bisection, size, tried, time.perf_counter() - began)


def _smallest_text(fault: Fault, arguments: tuple[Any, ...]) -> tuple[tuple[str, str], int]:
    """The sizes of the program's text before and after `minify --source`."""
    text, tried = inspect.getsource(fault.program), 0

    def is_wrong(smaller: str) -> bool:
        nonlocal tried
        tried += 1
        space: dict[str, Any] = {"torch": torch}
        exec(compile(smaller, fault.program.__code__.co_filename, "exec"), space)
        own = space.get(fault.program.__name__)
        if own is None or (expected := outcome.run(own, arguments)).error:
            return False
        nbcompile.reset()
        with nbcompile.config.patch(warm_start=False):
            return bool(outcome.difference(expected, outcome.run(nbcompile.compile(own), arguments)))

    if not is_wrong(text):
        return ("", ""), tried
    small = source.reduce(text, is_wrong)
    return (f"{len(text.splitlines())} lines", f"{len(small.splitlines())}"), tried


def table(chosen: list[Fault]) -> Iterator[Found]:
    """The rows of the table, in order."""
    for fault in terminal.progress(chosen, "faults"):
        yield look_for(fault)


def main(arguments: list[str] | None = None) -> int:
    """Write the table, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.tools.diagnose.fault_table", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("names", nargs="*", help="some of the faults; without names, all")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write a page of the documentation")
    options = parser.parse_args(arguments)
    unknown = set(options.names) - {fault.name for fault in FAULTS}
    if unknown:
        parser.error(f"there is no fault {', '.join(sorted(unknown))}")
    missed, text = [], HEAD
    print(HEAD[HEAD.index("\n| ") + 1 :], end="")
    for found in table([fault for fault in FAULTS if not options.names or fault.name in options.names]):
        print(found, flush=True)
        text += f"{found}\n"
        missed += [] if found.by_all else [found.fault.name]
        if options.output:
            options.output.write_text(text, encoding="utf-8")
    for name in missed:
        terminal.print_error(f"not found by all three: {name}")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
