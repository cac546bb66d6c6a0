"""One row for each program of a library: right, graphs, breaks, recompilations, first call and a later one, beside torch.compile.

    python -m tests.ecosystem.measure                 the table, as Markdown
    python -m tests.ecosystem.measure einops_patches  some rows of it

Graphs are counted under a backend that runs them as they stand; times are those of the default backends, in turns
within one process. In torch: nothing. Read next: tests/ecosystem/test_libraries.py
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo
from torch.utils import _pytree as pytree

import nbcompile
from tests.ecosystem.library_programs import PROGRAMS
from tests.peer.harness import OURS, THEIRS, Compiler, Observation
from tests.peer.program import Settings

ROUNDS = 20


@dataclass(frozen=True, slots=True)
class Captured:
    """What one compiler made of one program."""

    right: bool
    graphs: int
    """Graphs that were given to the backend at first, and again."""
    recompiled: int
    error: str = ""


def captured(name: str, compiler: Compiler) -> Captured:
    """Run all calls of a program under a backend that counts."""
    compiler.fresh()
    torch.manual_seed(0)
    ids: list[str] = []

    def backend(module: torch.fx.GraphModule, _: list[Any]) -> Callable[..., Any]:
        ids.append(compiler.compile_id())
        return module.forward

    make = PROGRAMS[name][1]
    expected = results(*make())
    function, calls = make()
    try:
        with compiler.watched(Settings(), Observation()):
            found = results(compiler.compile(function, backend, {}), calls)
    except Exception as error:  # noqa: BLE001  (a row of the table says so)
        return Captured(False, len(ids), 0, f"{type(error).__name__}: {error}"[:300])
    again = [each for each in ids if not each.endswith("/0")]
    compiler.fresh()
    return Captured(equal(found, expected), len(ids), len(again))


def results(function: Callable[..., Any], calls: list[tuple[Any, ...]]) -> list[Any]:
    """The result of each call."""
    return [function(*arguments) for arguments in calls]


def equal(found: Any, expected: Any) -> bool:
    """True if all tensors are near."""
    pairs = zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=True)
    return all(torch.allclose(torch.as_tensor(one), torch.as_tensor(other), 1e-4, 1e-5, True) for one, other in pairs)


def times(name: str) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds of the first round of calls, and the median of later ones, of eager, ours and torch.compile in turns."""
    ways: dict[str, Callable[..., Any]] = {
        "eager": lambda f: f, "ours": nbcompile.compile, "torch.compile": torch.compile
    }  # fmt: skip
    first, later, made = {}, {way: [] for way in ways}, {}
    for way, compile in ways.items():
        function, calls = PROGRAMS[name][1]()
        made[way] = (compile(function), calls)
        began = time.perf_counter()
        results(*made[way])
        first[way] = time.perf_counter() - began
    for _ in range(ROUNDS):
        for way, (function, calls) in made.items():
            began = time.perf_counter()
            results(function, calls)
            later[way].append(time.perf_counter() - began)
    return first, {way: statistics.median(taken) for way, taken in later.items()}


def is_installed(name: str) -> bool:
    """True if the library of a program is there."""
    return importlib.util.find_spec(PROGRAMS[name][0]) is not None


def row(name: str) -> str:
    """One row of the table."""
    ours, theirs = captured(name, OURS), captured(name, THEIRS)
    words = [
        ("yes" if each.right else "**no**") + f" | {each.graphs - each.recompiled} | {each.recompiled}"
        for each in (ours, theirs)
    ]
    begin = f"| {PROGRAMS[name][0]} | {name} | " + " | ".join(words)
    if ours.error or theirs.error:
        return f"{begin} | {ours.error or theirs.error} | | |"
    try:
        first, later = times(name)
    except Exception as error:  # noqa: BLE001  (the row says so)
        return f"{begin} | {type(error).__name__} | | |"
    return (
        f"{begin} | {first['ours']:.2f} / {first['torch.compile']:.2f} s "
        f"| {later['eager'] / later['ours']:.2f} | {later['torch.compile'] / later['ours']:.2f} |"
    )


HEADER = """\
| library | program | right | graphs | recompiled | torch: right | graphs | recompiled | first calls, ours / torch | eager / ours | torch / ours |
|---|---|---|---|---|---|---|---|---|---|---|"""

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(HEADER, flush=True)
    for name in sys.argv[1:] or filter(is_installed, PROGRAMS):
        print(row(name), flush=True)
