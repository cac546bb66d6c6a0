"""Units of work: some programs of a kind, from a seed, played one after another or in batches.

    play_unit("python", 1, 17)    {"programs": 25, "value_sets": 0, "eager_errors": 1, "seconds": 0.9, "found": [...]}

In torch: nothing. Read next: nbcompile/tools/fuzz/oracle.py
"""

from __future__ import annotations

import contextlib
import io
import logging
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from nbcompile.tools.fuzz import batches, database, guards, networks, oracle, python, reduction, tensors
from nbcompile.tools.fuzz.compare import Difference
from nbcompile.tools.fuzz.program import Program

GENERATORS: dict[str, tuple[Callable[[str], Program], int]] = {
    "python": (python.generate, 80),
    "guards": (guards.generate, 120),
    "nn": (networks.generate, 48),
    "tensor": (tensors.generate, 12),
}
"""Generator of each kind of program, and the number of programs (or batches of them) in a unit."""
WARM = {"python": 20, "guards": 16, "nn": 16, "tensor": 4}
"""Number of programs that are played before the first fork, to fill the caches of torch, SymPy and the compiler."""
PEER_SECONDS = 900


def warm_up(kinds: Collection[str]) -> None:
    """Import and build what every unit needs, so that forked processes have it."""
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    if "tensor" in kinds:
        database.names()
    for kind in kinds:
        for number in range(WARM[kind]):
            oracle.examine(GENERATORS[kind][0](f"warm/{kind}/{number}"))


def play_unit(
    kind: str, seed: int, unit: int, known: Collection[str] = (), compare_new: bool = False
) -> dict[str, Any]:
    """Run a unit's programs, and reduce those whose results differ.

    Args:
        kind: the kind of programs.
        seed: the seed of the campaign.
        unit: the number of the unit.
        known: causes that are only counted.
        compare_new: whether to run ``torch.compile`` for new causes.
    """
    began = _processor_seconds()
    make, count = GENERATORS[kind]
    programs = value_sets = eager_errors = 0
    found: list[dict[str, str]] = []
    for number in range(count):
        program = make(f"{seed}/{kind}/{unit}/{number}")
        outcome = oracle.examine(program)
        if outcome.eager_error:
            eager_errors += program.size
            continue
        programs += program.size
        value_sets += program.value_sets
        if outcome.difference is not None:
            for differing, difference in split(program, outcome):
                # A cause that this unit has found already is only counted:
                # the reduction of a program takes hundreds of compiles.
                seen = {*known, *(earlier["cause"] for earlier in found)}
                found.append(_described(differing, difference, seen, compare_new))
    seconds = round(_processor_seconds() - began, 3)
    return {
        "programs": programs,
        "value_sets": value_sets,
        "eager_errors": eager_errors,
        "seconds": seconds,
        "found": found,
    }


def _processor_seconds() -> float:
    """Processor time of this process and of the C++ compilers it started, in seconds."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def split(program: Program, outcome: oracle.Verdict) -> list[tuple[Program, Difference]]:
    """Split a batch into the programs that differ on their own; the whole batch, if only a combination differs."""
    if outcome.difference is None:
        return []
    found = [*_split(batches.members(program, outcome.members))] if program.size > 1 else []
    if found or (outcome.members and outcome.difference.aspect == "value"):
        return found  # empty if all distances are rounding
    return [*_split(batches.halves(program))] or [(program, outcome.difference)]


def _split(parts: Iterable[Program]) -> Iterator[tuple[Program, Difference]]:
    for part in parts:
        yield from split(part, oracle.examine(part))


def _described(program: Program, difference: Difference, known: Collection[str], compare_new: bool) -> dict[str, str]:
    """Cause, runnable file, and result of torch.compile; a program with a known cause is not reduced."""
    if reduction.is_named_by_text(difference) and (cause := reduction.cause(program, difference)) in known:
        return {"cause": cause, "text": ""}
    small, shown = reduction.reduced(program, difference)
    cause = reduction.cause(small, shown)
    text = f"{small.text()}\n\n{_commented(str(shown))}"
    return {"cause": cause, "text": text, "peer": peer_verdict(text) if compare_new and cause not in known else ""}


def _commented(text: str) -> str:
    return "".join(f"# {line}\n" for line in text.splitlines())


# -- torch.compile ----------------------------------------------------------------------------------------------------


def peer_verdict(text: str) -> str:
    """Result of the real torch.compile for a program, in a separate process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.py"
        path.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "nbcompile.tools.fuzz", "--peer", str(path)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PEER_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return "hangs"
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    return " ".join(lines[-1].split())[:300] if lines else f"crashes ({done.returncode})"


def peer_result(path: str) -> str:
    """Result of torch.compile for a program, in one line."""
    logging.disable(logging.CRITICAL)
    program = Program.read(path)
    with contextlib.redirect_stderr(io.StringIO()):
        outcome = oracle.examine(
            program, lambda function: torch.compile(function, backend=program.backend, dynamic=program.dynamic)
        )
    if outcome.eager_error:
        return f"eager mode fails: {outcome.eager_error}"
    return "as in eager" if outcome.difference is None else f"differs: {outcome.difference}".replace("\n", " ")
