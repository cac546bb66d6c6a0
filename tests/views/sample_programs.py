"""The programs of the sample records: one for each situation that a view must show well, with the calls of each.

    python -m tests.views.sample_programs FOLDER      compile them, and write one JSON file for each

They are compiled in a process of their own, so that ids, names and states are those of a first compile. What differs
from machine to machine (versions, durations, folders) is replaced, and the kernels are those for AVX2; all else is what the compiler
says of the programs.

In torch: nothing. Read next: tests/views/sample_records.py
"""

from __future__ import annotations

import contextlib
import dataclasses
import linecache
import os
import sys
import tempfile
import unittest.mock
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

import nbcompile
from nbcompile import api, config
from nbcompile.driver import stages
from nbcompile.fast.disk_cache import writer
from nbcompile.record import codec
from nbcompile.record.model import Environment, Record
from nbcompile.runtime import toolchain

FILE = "/tmp/ipykernel_1/cell_3.py"
ENVIRONMENT = Environment("3.11.9", "2.13.0", "0.1.0", "cpu", "g++ 12.2.0")
SECONDS = {
    "tracing": 0.0041,
    "backend": 0.2462,
    "lowering": 0.0031,
    "scheduling": 0.0009,
    "codegen": 0.0012,
    "build": 0.2210,
}
"""Duration of each stage; others take a tenth of a millisecond."""

SIMPLE_SOURCE = """\
def f(x, scale):
    y = torch.sin(x) * scale
    z = torch.relu(y) + x
    return z.sum()
"""
SAVE_SOURCE = """\
def f(x):
    y = x ** 2 / 2
    torch.save(y, "foo.pt")
    z = y ** 3 / 6
    return z
"""
NESTED_SOURCE = """\
def inner1(x):
    x = x + 1
    torch._dynamo.graph_break()
    return x + 2

def inner2(x):
    x = x + 4
    x = inner1(x)
    return x + 8

def f(x):
    x = x + 16
    x = inner2(x)
    return x + 32
"""
SKIPPED_SOURCE = """\
def loop(x):
    for step in range(3):
        print(x.sum().item())
    return helper(x)

def helper(x):
    return x + 1
"""
STEP_SOURCE = """\
class Model:
    pass

def step(self, x):
    self.count += 1
    return x @ self.weight
"""


def simple() -> Record:
    """One function, one graph, one kernel."""
    return recorded(SIMPLE_SOURCE, "f", lambda cell: [(torch.ones(1024), 2.0)], dynamic=False)


def save_break() -> Record:
    """``torch.save`` in the middle: two graphs, one break, one resume function."""
    return recorded(SAVE_SOURCE, "f", lambda cell: [(torch.ones(8),)], backend="eager")


def nested() -> Record:
    """``f -> inner2 -> inner1``, and a break in ``inner1``: one cause, six frames."""
    return recorded(NESTED_SOURCE, "f", lambda cell: [(torch.ones(8),)], backend="eager")


def recompiled() -> Record:
    """A second shape, then another number: static, then dynamic, then a number that is an input."""
    calls = [(torch.ones(1024), 2.0), (torch.ones(2048), 2.0), (torch.ones(2048), 3.0)]
    return recorded(SIMPLE_SOURCE, "f", lambda cell: calls, backend="eager")


def skipped() -> Record:
    """A frame that runs eagerly as a whole, and one whose compilation failed."""

    def fail(*arguments: object) -> None:
        raise RuntimeError("no lowering for prims.frobnicate")

    with unittest.mock.patch.object(stages.guarding, "build_check", fail):
        return recorded(SKIPPED_SOURCE, "loop", lambda cell: [(torch.ones(2),)], backend="eager")


def mutating() -> Record:
    """A side effect that is replayed, and an operator that ATen runs."""

    def calls(cell: dict[str, Any]) -> list[tuple[object, ...]]:
        model = cell["Model"]()
        model.count, model.weight = 0, torch.ones(8, 2)
        return [(model, torch.ones(4, 8))]

    return recorded(STEP_SOURCE, "step", calls)


def without_compiler() -> Record:
    """No C++ compiler was found: the graph runs through ATen."""
    absent = toolchain.NoCompiler("no C++ compiler: tried g++, clang++")
    with unittest.mock.patch.object(toolchain, "find", lambda: absent):
        return simple()


def recorded(
    source: str, function: str, calls: Callable[[dict[str, Any]], Iterable[tuple[object, ...]]], **options: Any
) -> Record:
    """The record of the calls that ``calls`` gives for the names of a cell."""
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    cell: dict[str, Any] = {"torch": torch, "__name__": "cell"}
    exec(compile(source, FILE, "exec"), cell)
    nbcompile.reset()
    compiled, recorder = nbcompile.compile(cell[function], **options), api.new_recorder(function)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), api.listening(recorder):
        for arguments in calls(cell):
            compiled(*arguments)
    return recorder.record()


PROGRAMS = (simple, save_break, nested, recompiled, skipped, mutating, without_compiler)


def normalized(record: Record) -> str:
    """The record as JSON, with what differs from machine to machine replaced."""
    frames = {frame.id for frame in record.frames}
    timings = tuple(
        dataclasses.replace(timing, seconds=SECONDS.get(timing.stage, 0.0001), began=0.0)
        for timing in record.timings
        if timing.frame in frames
    )
    compiler = ENVIRONMENT.compiler if record.environment.compiler else ""  # without_compiler() has none
    environment = dataclasses.replace(ENVIRONMENT, compiler=compiler)
    text = codec.to_json(dataclasses.replace(record, environment=environment, timings=timings), indent=1)
    return text.replace(str(Path(torch.__file__).parent), "torch") + "\n"


def main(folder: Path) -> None:
    """Compile every program, and write its record."""
    warnings.simplefilter("ignore")  # graph breaks are what some of the programs are for
    config.instruction_set = "avx2"  # a kernel's text is that of its instruction set
    for program in PROGRAMS:
        # An empty store, so that each frame is compiled; what the programs print goes nowhere.
        with tempfile.TemporaryDirectory() as store, contextlib.redirect_stdout(None):
            os.environ["NBCOMPILE_FRAMES_DIR"] = store
            record = program()
            writer.flush()
        (folder / f"{program.__name__}.json").write_text(normalized(record))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
