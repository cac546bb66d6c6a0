"""Campaign of the fuzzer: worker processes, their counts, and the causes that they found.

    run(Plan(seconds=600, seed=1, kinds=("python", "guards"), jobs=1, folder=Path("build/fuzz")))

Torch, the database of operators and the compiler's modules take ten seconds to import. This process imports them once
and forks a process for each unit of programs, which sends back one line of counts and ends: its memory is freed, and a
crash or hang loses only its unit, and is itself a finding. The kind with the least processor time runs next.
``state-SEED.json`` in the folder has the progress of each kind, so that a later run of the same seed continues there;
``causes/`` has one small program for each cause.

In torch: nothing. Read next: nbcompile/tools/fuzz/units.py
"""

from __future__ import annotations

import dataclasses
import gc
import json
import multiprocessing
import multiprocessing.connection
import os
import resource
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbcompile.tools.fuzz import units

PROCESSOR_SECONDS = 300
"""Processor time after which the system kills a unit."""
UNIT_SECONDS = 1800
"""Elapsed time after which a unit counts as hanging; much longer than the above, since a busy machine is slow."""
YOUNG_OBJECTS = 100_000
"""New objects between garbage collections; with Python's 700, these take a fifth of the time of a tensor program."""
FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True, slots=True)
class Plan:
    """Options of a run."""

    seconds: float
    seed: int
    kinds: tuple[str, ...]
    jobs: int
    folder: Path
    compare_with_peer: bool = True


@dataclass(slots=True)
class State:
    """Progress through the programs of a seed."""

    next_unit: dict[str, int] = field(default_factory=dict)
    programs: dict[str, int] = field(default_factory=dict)
    value_sets: dict[str, int] = field(default_factory=dict)
    """Number of sets of values with which tensor programs were called."""
    eager_errors: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    """Processor seconds, those of C++ compilers and of reductions included."""
    causes: dict[str, dict[str, Any]] = field(default_factory=dict)

    @staticmethod
    def read(path: Path) -> State:
        """Read the state of an earlier run, or create a new one."""
        return State(**json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else State()

    def write(self, path: Path) -> None:
        """Write the state to a file, atomically."""
        half = path.with_suffix(".half")
        half.write_text(json.dumps(dataclasses.asdict(self), indent=1), encoding="utf-8")
        half.replace(path)


def run(plan: Plan) -> int:
    """Play programs until the time is over; return the number of new causes."""
    (plan.folder / "causes").mkdir(parents=True, exist_ok=True)
    campaign = Campaign(plan, State.read(plan.folder / f"state-{plan.seed}.json"))
    units.warm_up(plan.kinds)
    gc.collect()
    gc.freeze()  # a collection in a unit visits only the unit's objects, and writes to no shared pages
    gc.set_threshold(YOUNG_OBJECTS)
    campaign.work()
    campaign.report()
    return campaign.new


@dataclass(slots=True)
class _Unit:
    """A process that plays a unit."""

    kind: str
    number: int
    process: Any
    receiver: multiprocessing.connection.Connection
    began: float


class Campaign:
    """Running units, and the results so far."""

    def __init__(self, plan: Plan, state: State) -> None:
        self.plan, self.state, self.new = plan, state, 0
        self.until = time.monotonic() + plan.seconds
        self.running: list[_Unit] = []
        self.unfinished: dict[str, list[int]] = {}

    def work(self) -> None:
        """Keep as many units running as there are jobs; at the end, running units are cancelled."""
        while time.monotonic() < self.until:
            while len(self.running) < self.plan.jobs:
                self.start(self.next_kind())
            multiprocessing.connection.wait([unit.receiver for unit in self.running], timeout=1.0)
            for unit in list(self.running):
                self.look_at(unit)
        # Started and not finished: a later run plays these units again.
        for unit in self.running:
            unit.process.kill()
            self.state.next_unit[unit.kind] = min(self.state.next_unit[unit.kind], unit.number)
        self.state.write(self.plan.folder / f"state-{self.plan.seed}.json")

    def next_kind(self) -> str:
        """Kind of program with the least processor time so far."""
        busy = [unit.kind for unit in self.running]
        return min(self.plan.kinds, key=lambda kind: (busy.count(kind), self.state.seconds.get(kind, 0.0)))

    def start(self, kind: str) -> None:
        """Start a process for the next unit of a kind."""
        number = self.state.next_unit.get(kind, 0)
        self.state.next_unit[kind] = number + 1
        receiver, sender = FORK.Pipe(duplex=False)
        known = frozenset(self.state.causes)
        process = FORK.Process(target=_play, args=(self.plan, kind, number, known, sender), daemon=False)
        process.start()
        # A pipe ends when all its writers have closed it. With this copy open, the end of a unit would not be detected.
        sender.close()
        self.running.append(_Unit(kind, number, process, receiver, time.monotonic()))

    def look_at(self, unit: _Unit) -> None:
        """Count a unit that has ended; kill one that hangs."""
        if unit.receiver.poll():
            try:
                counted = unit.receiver.recv()
            except EOFError:
                unit.process.join()
                counted = _failed(unit, f"ends the process ({_ending(unit.process.exitcode)})")
        elif time.monotonic() > unit.began + UNIT_SECONDS:
            counted = _failed(unit, "hangs")
        else:
            return
        unit.process.kill()
        unit.process.join()
        self.running.remove(unit)
        self.count(unit.kind, counted)

    def count(self, kind: str, counted: dict[str, Any]) -> None:
        """Add the counts of a unit."""
        state = self.state
        for name in ("programs", "value_sets", "eager_errors", "seconds"):
            total = getattr(state, name)
            total[kind] = round(total.get(kind, 0) + counted[name], 2)
        for found in counted["found"]:
            self.found(**found)
        state.write(self.plan.folder / f"state-{self.plan.seed}.json")

    def found(self, cause: str, text: str, peer: str = "") -> None:
        """Store the program of a new cause; count a known one."""
        if cause in self.state.causes:
            self.state.causes[cause]["count"] += 1
            return
        self.new += 1
        path = self.plan.folder / "causes" / f"{self.plan.seed}_{len(self.state.causes):04}.py"
        path.write_text(text, encoding="utf-8")
        self.state.causes[cause] = {"file": str(path), "count": 1, "torch.compile": peer}
        print(f"new: {cause}\n     {path} (torch.compile: {peer or 'not run'})", flush=True)

    def report(self) -> None:
        """Report of the programs run, by kind."""
        state = self.state
        for kind, count in sorted(state.programs.items()):
            rate = count / max(state.seconds.get(kind, 0.0), 0.01)
            failed = f"{state.eager_errors[kind]} fail in eager mode"
            print(f"{kind:8} {count:8} programs, {failed}, {rate:.1f} a processor second")
        if sets := sum(state.value_sets.values()):
            print(f"tensor programs were called with {sets} sets of values")
        print(f"{sum(state.programs.values()):8} programs in all, {len(state.causes)} causes, {self.new} of them new")


def _failed(unit: _Unit, how: str) -> dict[str, Any]:
    """The counts of a unit that sent none: its crash or hang is a finding."""
    name = f"{unit.kind} {how}: unit {unit.number}"
    text = f"# {name}: python -m nbcompile.tools.fuzz --seed SEED --unit {unit.kind}/{unit.number}\n"
    seconds = min(time.monotonic() - unit.began, PROCESSOR_SECONDS)  # on a busy machine it may have waited for long
    return {
        "programs": 0,
        "value_sets": 0,
        "eager_errors": 0,
        "seconds": seconds,
        "found": [{"cause": name, "text": text}],
    }


def _ending(status: int | None) -> str:
    return signal.Signals(-status).name if status is not None and status < 0 else f"status {status}"


def _play(plan: Plan, kind: str, number: int, known: frozenset[str], sender: Any) -> None:
    """Run a unit in the worker process, and send its counts."""
    # The first limit sends SIGXCPU, whose name the report has then; the second sends SIGKILL.
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS + 10))
    # The descriptor itself, since C++ and child processes do not write to ``sys.stderr``.
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)
    sender.send(units.play_unit(kind, plan.seed, number, known, plan.compare_with_peer))
