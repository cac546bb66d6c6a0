"""Units of work: some programs of a kind, from a seed, played one after another or many in one.

    play_unit("python", 1, 17)    {"unit": 17, "programs": 25, "refused": 1, "seconds": 0.9, "found": [...]}

In torch: nothing. Read next: nbcompile/tools/fuzz/oracle.py
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import time
from collections.abc import Callable
from typing import Any

import torch

from nbcompile.tools.fuzz import guards, networks, oracle, python, reduction, tensors
from nbcompile.tools.fuzz.program import Program

GENERATORS: dict[str, tuple[Callable[[str], Program], int]] = {
    "python": (python.generate, 25),
    "guards": (guards.generate, 25),
    "nn": (networks.generate, 8),
    "tensor": (tensors.generate, 2),
}
"""What makes a program of a kind, and how many are a unit."""


def work(kind: str, seed: int, first: int, count: int) -> None:
    """A worker process: one line of JSON for each unit."""
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    for unit in range(first, first + count):
        print(json.dumps(play_unit(kind, seed, unit)), flush=True)


def play_unit(kind: str, seed: int, unit: int) -> dict[str, Any]:
    """Play a unit's programs and make what differs small."""
    began = time.perf_counter()
    make, count = GENERATORS[kind]
    programs = refused = 0
    found: list[dict[str, str]] = []
    for number in range(count):
        program = make(f"{seed}/{kind}/{unit}/{number}")
        outcome, program = examined(program)
        if outcome.refused:
            refused += program.size
            continue
        programs += program.size
        if outcome.difference is not None:
            small, difference = reduction.reduced(program, outcome.difference)
            cause = reduction.cause(small, difference)
            found.append({"cause": cause, "text": f"{small.text()}\n\n{_commented(str(difference))}"})
    seconds = round(time.perf_counter() - began, 3)
    return {"unit": unit, "programs": programs, "refused": refused, "seconds": seconds, "found": found}


def examined(program: Program) -> tuple[oracle.Outcome, Program]:
    """What a program shows; of several in one, those that differ by themselves are taken out."""
    outcome = oracle.examine(program)
    if outcome.difference is None or program.size == 1:
        return outcome, program
    for single in tensors.singles(program):
        alone = oracle.examine(single)
        if alone.difference is not None:
            return alone, single
    return outcome, program


def _commented(text: str) -> str:
    return "".join(f"# {line}\n" for line in text.splitlines())


def ask_peer(path: str) -> str:
    """What torch.compile makes of a program, as one line."""
    logging.disable(logging.CRITICAL)
    program = Program.read(path)
    with contextlib.redirect_stderr(io.StringIO()):
        outcome = oracle.examine(
            program, lambda function: torch.compile(function, backend=program.backend, dynamic=program.dynamic)
        )
    if outcome.refused:
        return f"eager refuses: {outcome.refused}"
    return "as in eager" if outcome.difference is None else f"differs: {outcome.difference}".replace("\n", " ")
