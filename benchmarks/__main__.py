"""Plan the measurements, run each in a process of its own, print and keep the results.

    python -m benchmarks [--quick] [GROUP ...]      ->  a Markdown table, build/bench.json, build/bench.md
    python -m benchmarks --docs [GROUP ...]         ->  and docs/benchmarks.md
    python -m benchmarks models --models bert,t5 --model-sizes larger --caches build/caches

Results are written after each process: what is stopped keeps what it has.

What counts as cold: a fresh process and empty caches of compiled code
(``TORCHINDUCTOR_CACHE_DIR``, ``NBCOMPILE_CACHE_DIR``). Inductor's precompiled
header lives elsewhere, in ``$TMPDIR``: it is there already unless the row says
otherwise, as it would be on a machine in use. A second column switches off
Inductor's probing of the CPU (``TORCHINDUCTOR_VEC_ISA_OK=1``), its strongest cold start.
Python's own bytecode of the libraries is there, as ``pip install`` leaves it.

Read next: benchmarks/tasks.py
"""

from __future__ import annotations

import argparse
import compileall
import importlib.util
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from benchmarks import report, workloads
from benchmarks.report import EAGER, OURS, TORCH
from benchmarks.tasks import MARK
from nbcompile.runtime import toolchain

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
COMPILERS = [EAGER, TORCH, OURS]
GROUPS = (
    "start", "per_call", "guards", "nested", "training", "kernels", "sizes", "bandwidth", "passes", "capture", "models",
    "gpu_builds",
)  # fmt: skip
MODEL_SIZES = ("small", "larger")
CAPTURED = (
    "bert", "gpt2", "llama", "mixtral", "t5", "vit", "swin", "resnet", "whisper", "clip", "deberta-v2", "mamba",
)  # fmt: skip


@dataclass(slots=True)
class Bench:
    """One run: where things are kept, and what was found so far."""

    folder: Path
    quick: bool
    threads: int
    out: Path | None = None
    """Where results are kept, after each process."""
    models: tuple[str, ...] = CAPTURED
    model_sizes: tuple[str, ...] = MODEL_SIZES
    rows: list[dict[str, Any]] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)

    @property
    def rounds(self) -> int:
        """How often each candidate is timed."""
        return 4 if self.quick else 15

    def run(self, job: dict[str, Any], cache: str = "shared", environment: dict[str, str] | None = None) -> None:
        """Run one task in a process of its own; whatever it told is kept, and a crash is a result."""
        job = {"threads": self.threads, "rounds": self.rounds, **job}
        told, death = self._process(job, cache, environment or {})
        self.rows += told
        if death:
            self._without_ours(job, cache, told, death)
        self.keep()

    def keep(self) -> str:
        """Write what was found so far; the text of it."""
        facts = _facts(self, time.perf_counter() - self.began)
        text = report.markdown(self.rows, facts)
        if self.out is not None:
            self.out.mkdir(parents=True, exist_ok=True)
            (self.out / "bench.md").write_text(text)
            (self.out / "bench.json").write_text(json.dumps({"facts": facts, "rows": self.rows}, indent=1) + "\n")
        return text

    def _without_ours(self, job: dict[str, Any], cache: str, told: list[dict[str, Any]], death: str) -> None:
        """A process died: that is a row, and without ours the others' numbers can still be had."""
        compilers = job.get("compilers", [job.get("label", "")])
        self.rows.append(self._failure(job, compilers[-1] if OURS not in compilers else OURS, death))
        if OURS in compilers and len(compilers) > 1:
            self.rows = [row for row in self.rows if row not in told]
            self.rows += self._process({**job, "compilers": [each for each in compilers if each != OURS]}, cache, {})[0]

    def add_means(self, group: str) -> None:
        """A row with the geometric mean of a group for each compiler."""
        rows = [row for row in self.rows if row["group"] == group]
        self.rows += [report.means(rows, group, label) for label in dict.fromkeys(row["compiler"] for row in rows)]

    def compile_ahead(self, jobs: list[dict[str, Any]]) -> None:
        """Fill the caches with what the jobs compile, on every core at once: only what is timed needs the machine."""
        with ThreadPoolExecutor(os.cpu_count()) as workers:
            for job in jobs:
                workers.submit(self._process, {"threads": self.threads, "rounds": 0, **job}, "shared", {})

    def _process(self, job: dict[str, Any], cache: str, extra: dict[str, str]) -> tuple[list[dict[str, Any]], str]:
        environment = os.environ | self.environment(cache) | {"PYTHONDONTWRITEBYTECODE": ""} | extra
        program = job.get("workloads", job.get("models", ()))[:1]
        what = [job["task"], job.get("label"), job.get("phase"), *program, job.get("size")]
        print(" ", *filter(None, what), file=sys.stderr)
        command = [sys.executable, "-m", "benchmarks.tasks", json.dumps(job)]
        limit = 240 if self.quick else 900
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired as stopped:
            return _told(stopped.stdout or b""), f"took longer than {limit} s"
        return _told(done.stdout), _death(done)

    def environment(self, cache: str) -> dict[str, str]:
        """Where caches are for a task; the precompiled header's folder is shared unless asked otherwise."""
        caches = self.folder / cache
        scratch = self.folder / "tmp"
        for each in (caches / "torch", caches / "ours", scratch):
            each.mkdir(parents=True, exist_ok=True)
        return {
            "TORCHINDUCTOR_CACHE_DIR": str(caches / "torch"),
            "NBCOMPILE_CACHE_DIR": str(caches / "ours"),
            "TMPDIR": str(scratch),
        }

    def _failure(self, job: dict[str, Any], compiler: str, death: str) -> dict[str, Any]:
        name = str(job.get("workloads", [job["task"]])[0])
        group = GROUP_OF.get(job["task"]) or str(job["phase"])
        return {"group": group, "name": name, "compiler": compiler, "value": None, "unit": "s", "failure": death}


def starts(bench: Bench) -> None:
    """Cold first call, second new function in the live process, warm start, and the memory of these processes."""
    names = list(workloads.QUICK[:1] if bench.quick else workloads.PROGRAMS)
    _compile_libraries()
    _bare_starts(bench)
    columns = [
        (TORCH, TORCH, {}),
        (TORCH, "torch.compile, no ISA probing", {"TORCHINDUCTOR_VEC_ISA_OK": "1"}),
        (OURS, OURS, {"NBCOMPILE_WARM_START": "1"}),
    ]
    for at, first in enumerate(names):
        # The function compiled second is the next of the list, so that each is once first and once second.
        second = names[(at + 1) % len(names)] if len(names) > 1 else workloads.QUICK[1]
        for compiler, label, extra in columns:
            cache = re.sub(r"\W+", "-", f"{first} {label}")  # Inductor's compile commands do not stand a blank
            job = {"task": "start", "compiler": compiler, "label": label, "workloads": [first, second]}
            bench.run({**job, "phase": "cold start"}, cache, extra)
            bench.run({**job, "phase": "warm start"}, cache, extra)
    groups = dict.fromkeys(row["group"] for row in bench.rows if re.match("cold|warm|second|peak", row["group"]))
    for group in groups:
        bench.add_means(group)


def _compile_libraries() -> None:
    """Without bytecode each process would compile 1,000 modules of Python: torch.compile for 10 s more than we."""
    for name in ("torch", "sympy", "mpmath", "numpy", "triton", "nbcompile"):
        found = importlib.util.find_spec(name)
        for folder in () if found is None else found.submodule_search_locations or ():
            compileall.compile_dir(folder, quiet=2, workers=0)


def _bare_starts(bench: Bench) -> None:
    """One start of each in an empty folder for temporary files: builds the precompiled header, and is a row itself."""
    for compiler in COMPILERS[1:]:
        job = {"task": "start", "compiler": compiler, "label": compiler, "workloads": [*workloads.QUICK[:1]]}
        bench.run({**job, "phase": "cold start, no precompiled header"}, f"bare-{compiler}")


def per_call(bench: Bench) -> None:
    """The cost of a call."""
    bench.run({"task": "per_call", "compilers": COMPILERS})


def guards(bench: Bench) -> None:
    """The cost of guards, by the number of Linear layers."""
    counts = [1, 10, 50] if bench.quick else [1, 10, 50, 200]
    bench.run({"task": "guards", "compilers": COMPILERS, "counts": counts})
    for compiler in COMPILERS[1:]:
        points = [
            (float(row["name"].partition(" ")[0]), row["value"])
            for row in bench.rows
            if row["group"] == "guards" and row["compiler"] == compiler and row["value"] is not None
        ]
        if len(points) > 1:
            row = {
                "group": "guards",
                "name": "slope: each further layer",
                "compiler": compiler,
                "unit": "s",
                "failure": "",
            }
            bench.rows.append({**row, "value": report.slope(points)})


def nested(bench: Bench) -> None:
    """One break at the bottom of a chain: met again by each caller, and as a chain of resume functions."""
    depths = [8] if bench.quick else [6, 12, 24]
    bench.run({"task": "nested", "compilers": COMPILERS, "depths": depths})
    before = len(bench.rows)
    bench.run({"task": "nested", "compilers": COMPILERS[1:], "depths": depths, "nested_graph_breaks": True})
    for row in bench.rows[before:]:
        row["compiler"] += ", nested_graph_breaks=True"


def training(bench: Bench) -> None:
    """A training step."""
    sizes = [[64, 16]] if bench.quick else [[16, 4], [256, 64], [1024, 256]]
    bench.run({"task": "training", "compilers": COMPILERS, "sizes": sizes})


def kernels(bench: Bench) -> None:
    """The speed of generated code: the sixteen programs."""
    names = workloads.QUICK if bench.quick else tuple(workloads.PROGRAMS)
    for name in names:
        bench.run({"task": "kernel", "compilers": COMPILERS, "workloads": [name]})
    bench.add_means("kernels")


def sizes(bench: Bench) -> None:
    """The speed of generated code, by size."""
    for name, each in workloads.SIZED.items():
        plan = [[name, size] for size in (each.quick if bench.quick else each.sizes)]
        bench.run({"task": "sized", "compilers": COMPILERS, "plan": plan})


def bandwidth(bench: Bench) -> None:
    """The speed of generated code on tensors that no cache holds, against the memory's."""
    bench.run({"task": "bandwidth", "compilers": COMPILERS})


def passes(bench: Bench) -> None:
    """What the compiler's own passes cost, by the size of the graph."""
    for compiler in COMPILERS[1:]:
        counts = [200] if bench.quick else [1000]
        bench.run({"task": "passes", "compiler": compiler, "compilers": [compiler], "counts": counts}, "passes")


def capture(bench: Bench) -> None:
    """What capturing models of transformers costs, and what comes out. Each compiler has a process of its own."""
    for _ in range(1 if bench.quick else 3):
        for compiler in COMPILERS[1:]:
            bench.run({"task": "capture", "compiler": compiler, "compilers": [compiler], "models": list(CAPTURED)})
    bench.rows = _least(bench.rows)
    for group in ("capture: to the graph", "capture: with guards and program"):
        bench.add_means(group)


def models(bench: Bench) -> None:
    """Real models against eager and torch.compile, each in a process of its own, and as one mean."""
    names = bench.models[:2] if bench.quick else bench.models
    jobs = [
        {"task": "running", "compilers": COMPILERS, "models": [name], "size": size}
        for size in bench.model_sizes for name in names
    ]  # fmt: skip
    bench.compile_ahead(jobs)
    for job in jobs:
        bench.run(job)
    for group in ("models: inference", "models: training step"):
        bench.add_means(group)
    _add_share(bench)


def gpu_builds(bench: Bench) -> None:
    """Fifty kernels for a GPU, built in a fresh process with empty stores, and in a second process."""
    _compile_libraries()
    for round_ in range(1 if bench.quick else 3):
        for compiler in (TORCH, OURS):
            cache = f"gpu builds {compiler} {round_}".replace(" ", "-")
            folder = str(bench.folder / cache / "triton")
            for phase in ("libraries", "cold", "warm"):
                job = {"task": "gpu_build", "compiler": compiler, "label": compiler, "phase": phase}
                bench.run(job, cache, {"TRITON_CACHE_DIR": folder, "NBCOMPILE_WARM_START": "1"})
    bench.rows = _least(bench.rows)


def _add_share(bench: Bench) -> None:
    """How much of all models is generated code."""
    counted, by_aten = (
        sum(row["value"] or 0 for row in bench.rows if row["group"] == group)
        for group in ("models: call nodes", "models: of these run by ATen")
    )
    if counted:
        share = {"group": "models: generated call nodes, in a hundred", "name": "all models", "compiler": OURS}
        bench.rows.append({**share, "value": 100 * (1 - by_aten / counted), "unit": "", "failure": ""})


GROUP_OF = {
    "kernel": "kernels", "sized": "kernels by size", "bandwidth": "bandwidth at 128 MiB, of STREAM triad",
    "passes": "own passes, CPU time without the C++ compiler", "per_call": "per call", "guards": "guards",
    "nested": "nested break", "training": "training step", "capture": "capture: to the graph",
    "running": "models: inference", "gpu_build": "fifty kernels for a GPU",
}  # fmt: skip
RUNNERS = {
    "start": starts,
    "per_call": per_call,
    "guards": guards,
    "nested": nested,
    "training": training,
    "kernels": kernels,
    "sizes": sizes,
    "bandwidth": bandwidth,
    "passes": passes,
    "capture": capture,
    "models": models,
    "gpu_builds": gpu_builds,
}


def _told(output: str | bytes) -> list[dict[str, Any]]:
    text = output.decode(errors="replace") if isinstance(output, bytes) else output
    return [json.loads(line.removeprefix(MARK)) for line in text.splitlines() if line.startswith(MARK)]


def _death(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode == 0:
        return ""
    if done.returncode < 0:
        return f"the process was ended by {signal.Signals(-done.returncode).name}"
    lines = done.stderr.strip().splitlines() or ["no message"]
    return f"exit status {done.returncode}: {lines[-1][:200]}"


def _least(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The best of repeated measurements; a failure only where nothing succeeded."""
    kept: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in rows:
        key = (row["group"], row["name"], row["compiler"])
        old = kept.get(key)
        if old is None or old["value"] is None or (row["value"] is not None and row["value"] < old["value"]):
            kept[key] = row
    return list(kept.values())


def _revision() -> str:
    """The commit that was measured."""
    said = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return f"commit {said.stdout.strip()}" if said.returncode == 0 else "not a checkout of git"


def _facts(bench: Bench, took: float) -> dict[str, Any]:
    return {
        "machine": f"{_processor()}, {os.cpu_count()} CPUs, {platform.system()}",
        "versions": f"Python {platform.python_version()}, torch {torch.__version__}, {_compiler()}",
        "threads": f"{bench.threads}; loops are timed in {'CPU' if bench.threads == 1 else 'wall'} time",
        "protocol": f"interleaved, minimum of {bench.rounds} rounds",
        "starts": "from just before the compiler is imported to the first result, in wall time, and in CPU time "
        "with that of the C++ compilers it starts",
        "precompiled header of Inductor": "present, but where a row says otherwise",
        "results": "checked against eager before timing",
        "load average at the end": f"{os.getloadavg()[0]:.1f}",
        "took": f"{took:.0f} s",
        "measured": f"{datetime.now(UTC):%Y-%m-%d}, {_revision()}",
    }


def _processor() -> str:
    try:
        return re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())[1]  # type: ignore[index]
    except (OSError, TypeError):
        return platform.processor() or platform.machine()


def _compiler() -> str:
    compiler = toolchain.find()
    return compiler.version if isinstance(compiler, toolchain.Compiler) else compiler.reason


@contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="nbcompile-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def main() -> int:
    """Run the groups that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition("\n")[0])
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"any of: {', '.join(GROUPS)} (all)")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and rounds: under three minutes")
    parser.add_argument("--threads", type=int, default=1, help="threads of each process (1)")
    parser.add_argument("--out", type=Path, default=ROOT / "build", help="folder of bench.json and bench.md (build)")
    parser.add_argument("--models", type=_some_of(CAPTURED), default=CAPTURED, help="names with commas (all)")
    parser.add_argument("--model-sizes", type=_some_of(MODEL_SIZES), default=MODEL_SIZES, help="small,larger (both)")
    parser.add_argument("--caches", type=Path, help="compiled code is kept in this folder (of no use to cold starts)")
    parser.add_argument("--docs", action="store_true", help="write the table into docs/benchmarks.md as well")
    arguments = parser.parse_args()
    if unknown := set(arguments.groups) - set(GROUPS):
        parser.error(f"no group is called {', '.join(sorted(unknown))}; the groups are {', '.join(GROUPS)}")
    text = ""
    with _scratch() if arguments.caches is None else nullcontext(arguments.caches.resolve()) as folder:
        bench = Bench(
            folder, arguments.quick, arguments.threads, arguments.out, arguments.models, arguments.model_sizes
        )
        for group in arguments.groups or GROUPS:
            print(group, file=sys.stderr)
            RUNNERS[group](bench)
            text = bench.keep()
    if arguments.docs:
        PAGE.write_text(report.page(text, bench.rows, sys.argv[1:]))
    print(text)
    return 0


def _some_of(known: tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    """Reads names with commas between them."""

    def names(text: str) -> tuple[str, ...]:
        asked = tuple(text.split(","))
        if unknown := set(asked) - set(known):
            raise argparse.ArgumentTypeError(f"no {', '.join(sorted(unknown))} among {', '.join(known)}")
        return asked

    return names


if __name__ == "__main__":
    sys.exit(main())
