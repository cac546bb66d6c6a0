"""Every operator that torch describes, as a user compiles it: default options, the store on, one process, breaks allowed.

    python -m tests.opinfo.default                      a fresh store, and again over what the first run left in it
    python -m tests.opinfo.default angle linalg.det     two operators
    python -m tests.opinfo.default --dtype complex64    another dtype; --backend aot_eager, --compiler torch: others

Other than in harness.py nothing here is a condition of the test: graph breaks,
recompilations and what earlier operators left in the store are allowed, as they
are in use. The second run is a process of its own that loads what the first
compiled. Frames compiled and loaded, and shared objects built and found, are
counted by operator; --show names those that the second run compiles.

In torch: test/inductor/test_torchinductor_opinfo.py. Read next: tests/opinfo/harness.py
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable
from typing import Any

import torch

from nbcompile.eval_frame import first_call
from nbcompile.fast.disk_cache import entry
from nbcompile.runtime import store
from tests.opinfo import harness, results

RUNS = ("a fresh store", "the filled store")
STORE_IS_ON = {"NBCOMPILE_WARM_START": "1"}
COMPILED, LOADED, BUILT, FOUND = "frames compiled", "frames loaded", "files built", "files found"


@dataclasses.dataclass
class Run:
    """One process with one store."""

    outcomes: list[results.Outcome] = dataclasses.field(default_factory=list)
    counts: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict)
    """By operator: frames compiled and loaded, files of the store built and found."""

    def compiled(self) -> dict[str, int]:
        """The operators that compiled a frame, with counts."""
        return {name: counted[COMPILED] for name, counted in self.counts.items() if counted.get(COMPILED)}

    def text(self) -> str:
        """The counts in one line."""
        statuses = collections.Counter(outcome.status for outcome in self.outcomes)
        samples = sum(statuses.values()) - statuses[results.NO_SAMPLE]
        total = collections.Counter[str]()
        for counted in self.counts.values():
            total.update(counted)
        return f"{statuses[results.PASSED]} of {samples} pass {dict(statuses)}; {dict(total)}"


def run(options: Iterable[str], folder: str) -> Run:
    """All outcomes of one process with one store; a crash is an outcome, too."""
    command = [sys.executable, "-m", "tests.opinfo.default", "--worker", *options]
    environment = {**os.environ, **STORE_IS_ON, "NBCOMPILE_CACHE_DIR": folder}
    done = Run()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as worker:
        assert worker.stdout
        for line in worker.stdout:
            if line.startswith('{"name"'):
                told = json.loads(line)
                done.counts[told["name"]] = told.pop("counts")
                done.outcomes.append(results.Outcome(**told))
    if worker.returncode:
        done.outcomes.append(results.Outcome("the process", "crash", 0, f"it ended with {worker.returncode}"))
    return done


def count(counts: collections.Counter[str]) -> None:
    """Start counting in this process."""
    load, add, fetch, compile_frame = entry.load, store.add, store.fetch, first_call.stages.compile_frame

    def loaded(*arguments: Any, **keywords: Any) -> Any:
        found = load(*arguments, **keywords)
        counts[LOADED] += found is not None
        return found

    def compiled(*arguments: Any) -> Any:
        counts[COMPILED] += 1
        return compile_frame(*arguments)

    def added(*arguments: Any) -> Any:
        counts[BUILT] += 1
        return add(*arguments)

    def fetched(*arguments: Any) -> Any:
        found = fetch(*arguments)
        counts[FOUND] += found is not None
        return found

    entry.load, store.add, store.fetch, first_call.stages.compile_frame = loaded, added, fetched, compiled


def work(arguments: argparse.Namespace) -> None:
    """Print the outcome and the counts of each operator that is named (of all, if none is), as a line of JSON."""
    warnings.simplefilter("ignore")
    counts = collections.Counter[str]()
    count(counts)
    infos, dtype = harness.database(), getattr(torch, arguments.dtype)
    compile_it = harness.compiler(arguments.compiler, arguments.backend)
    for name in arguments.names or infos:
        counts.clear()
        found = harness.outcome(infos[name], dtype, arguments.backward, compile_it, arguments.samples)
        if arguments.compiler == "torch":
            torch.compiler.reset()
        print(json.dumps({**dataclasses.asdict(found), "counts": dict(counts)}), flush=True)


def main() -> None:
    """Run both processes, and print the report."""
    parser = harness.parser("tests.opinfo.default", samples=2)
    parser.add_argument("--store", help="a folder for the store; a temporary one otherwise")
    parser.add_argument("--show", action="store_true", help="name the operators that the second run compiles")
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments)
        return
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for which in RUNS:
            done = run(sys.argv[1:], arguments.store or folder)
            for outcome in done.outcomes:
                if outcome.status not in results.FINE:
                    print(f"{outcome.name}\t{outcome.status}\t{outcome.detail}")
                    failed = True
            print(f"{which}: {done.text()}", flush=True)
        if arguments.show:
            print("compiled over the filled store:", done.compiled())
    sys.exit(failed)


if __name__ == "__main__":
    main()
