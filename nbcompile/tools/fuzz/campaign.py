"""A run of the fuzzer: worker processes, what they counted, and the causes that they found.

    run(Plan(seconds=600, seed=1, kinds=("python", "guards"), jobs=1, folder=Path("build/fuzz")))

A worker plays units of programs and writes a line of JSON for each; one that crashes or hangs costs its unit, which
is a finding itself. ``state.json`` in the folder says how far each kind came, so that a later run of the same seed goes
on from there; ``causes/`` holds one small program for each cause.

In torch: nothing. Read next: nbcompile/tools/fuzz/units.py
"""

from __future__ import annotations

import collections
import dataclasses
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

UNIT_SECONDS = 180
"""A unit that says nothing for so long hangs."""
UNITS_OF_A_WORKER = 40
"""Then a new process begins: what one leaves behind in memory ends with it."""
PEER_SECONDS = 180


@dataclass(frozen=True, slots=True)
class Plan:
    """What was asked for."""

    seconds: float
    seed: int
    kinds: tuple[str, ...]
    jobs: int
    folder: Path
    ask_peer: bool = True


@dataclass(slots=True)
class State:
    """How far a seed's programs have been played."""

    next_unit: dict[str, int] = field(default_factory=dict)
    programs: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    causes: dict[str, dict[str, Any]] = field(default_factory=dict)

    @staticmethod
    def read(path: Path) -> State:
        """The state that an earlier run left, or a new one."""
        return State(**json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else State()

    def write(self, path: Path) -> None:
        """Keep it; a reader never sees half of it."""
        half = path.with_suffix(".half")
        half.write_text(json.dumps(dataclasses.asdict(self), indent=1), encoding="utf-8")
        half.replace(path)


def run(plan: Plan) -> int:
    """Play programs until the time is over; returns how many causes are new."""
    (plan.folder / "causes").mkdir(parents=True, exist_ok=True)
    campaign = _Campaign(plan, State.read(plan.folder / f"state-{plan.seed}.json"))
    threads = [threading.Thread(target=campaign.work, args=(number,), daemon=True) for number in range(plan.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    campaign.report()
    return campaign.new


class _Campaign:
    def __init__(self, plan: Plan, state: State) -> None:
        self.plan, self.state, self.new = plan, state, 0
        self.until = time.monotonic() + plan.seconds
        self.lock = threading.Lock()
        self.turn = collections.deque(plan.kinds)

    def work(self, number: int) -> None:
        """One process after another, each for some units of one kind."""
        while time.monotonic() < self.until:
            with self.lock:
                kind = self.turn[0]
                self.turn.rotate(-1)
                first = self.state.next_unit.get(kind, 0)
                self.state.next_unit[kind] = first + UNITS_OF_A_WORKER
            self.process(kind, first)

    def process(self, kind: str, first: int) -> None:
        done = first - 1
        for line in _lines(_command(kind, self.plan.seed, first), self.until):
            done = line["unit"]
            with self.lock:
                self.count(kind, line)
        if done + 1 < first + UNITS_OF_A_WORKER:
            crashed = time.monotonic() < self.until
            with self.lock:
                if crashed:
                    name = f"{kind} crash or hang: seed {self.plan.seed} unit {done + 1}"
                    self.found(
                        name,
                        f"# {name}: python -m nbcompile.tools.fuzz --seed {self.plan.seed} --unit {kind}/{done + 1}\n",
                    )
                # What was not played is played next time; what ended the process is not.
                if self.state.next_unit[kind] == first + UNITS_OF_A_WORKER:
                    self.state.next_unit[kind] = done + 1 + crashed

    def count(self, kind: str, line: dict[str, Any]) -> None:
        state = self.state
        state.programs[kind] = state.programs.get(kind, 0) + line["programs"]
        state.refused[kind] = state.refused.get(kind, 0) + line["refused"]
        state.seconds[kind] = round(state.seconds.get(kind, 0.0) + line["seconds"], 2)
        for found in line["found"]:
            self.found(found["cause"], found["text"])
        state.write(self.plan.folder / f"state-{self.plan.seed}.json")

    def found(self, cause: str, text: str) -> None:
        if cause in self.state.causes:
            self.state.causes[cause]["count"] += 1
            return
        self.new += 1
        path = self.plan.folder / "causes" / f"{self.plan.seed}_{len(self.state.causes):04}.py"
        path.write_text(text, encoding="utf-8")
        verdict = peer_verdict(path) if self.plan.ask_peer and text.startswith("# fuzz: ") else ""
        self.state.causes[cause] = {"file": str(path), "count": 1, "torch.compile": verdict}
        print(f"new: {cause}\n     {path} (torch.compile: {verdict or 'not asked'})", flush=True)

    def report(self) -> None:
        state = self.state
        for kind, count in sorted(state.programs.items()):
            rate = count / max(state.seconds.get(kind, 0.0), 0.01)
            print(f"{kind:8} {count:8} programs, {state.refused[kind]} refused by eager, {rate:.1f} a second")
        print(f"{sum(state.programs.values()):8} programs in all, {len(state.causes)} causes, {self.new} of them new")


def _command(kind: str, seed: int, first: int) -> list[str]:
    worker = ["--worker", f"{kind}/{first}/{UNITS_OF_A_WORKER}", "--seed", str(seed)]
    return [sys.executable, "-m", "nbcompile.tools.fuzz", *worker]


def _lines(command: list[str], until: float) -> Iterator[dict[str, Any]]:
    """What a worker writes, until it ends, is silent for too long, or the time is over."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as worker:
        assert worker.stdout is not None
        spoke = [time.monotonic()]
        over = threading.Event()

        def watch() -> None:
            while not over.wait(1.0):
                if time.monotonic() > until + 5 or time.monotonic() > spoke[0] + UNIT_SECONDS:
                    worker.kill()
                    return

        threading.Thread(target=watch, daemon=True).start()
        try:
            for line in worker.stdout:
                spoke[0] = time.monotonic()
                if line.startswith("{"):
                    yield json.loads(line)
                if time.monotonic() > until:
                    break
        finally:
            over.set()
            worker.kill()


def peer_verdict(path: Path) -> str:
    """What the real torch.compile makes of a program, in a process of its own."""
    command = [sys.executable, "-m", "nbcompile.tools.fuzz", "--peer", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PEER_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "hangs"
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    return " ".join(lines[-1].split())[:300] if lines else f"crashes ({done.returncode})"
