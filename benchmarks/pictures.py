"""Sizes and times of what ``%%compile`` shows: bytes of HTML and text, and how long the picture and the store take.

    python -m benchmarks.pictures                    a function, one for a GPU, recompilations, a step, GPT-2 small
    python -m benchmarks.pictures "simple function"  some of them; --rounds 5 for the least of five processes

Each cell runs in a process of its own over an empty store, in an IPython shell that keeps what is displayed.
``picture`` is the time from the end of the cell's program to the output (and the processor's time of that thread, which
a busy machine does not change much), ``store, in the call`` what keeping the entry takes out of the compile,
``after it`` what the thread needs that writes it down when the picture is there. ``cell`` is all of it; its processor
time has the processes that it started.

In torch: nothing. Read next: nbcompile/jupyter/magics.py
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type

from nbcompile import config
from nbcompile.fast.disk_cache import entry, graphs, writer
from nbcompile.gpu import cubins
from nbcompile.jupyter import cell as cells

ROOT = Path(__file__).parents[1]
SETUP = "%load_ext nbcompile\nimport torch\nfrom torch import nn\ntorch.manual_seed(0)\n"
CELLS = {
    "simple function": """
        def f(x, y):
            z = torch.sin(x) + y
            return z * 2
        f(torch.randn(8), torch.randn(8));
    """,
    "simple function for a GPU": """
        def f(x, y):
            z = torch.sin(x) + y
            return z * 2
        f(torch.randn(64, 1024), torch.randn(64, 1024));
    """,
    "8 recompilations": """
        def f(x, tag):
            return x.sin() + len(tag)
        for i in range(9):
            f(torch.ones(4), f"t{i}")
    """,
    "training step": """
        net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
        opt = torch.optim.Adam(net.parameters())
        def step(x, target):
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(x), target)
            loss.backward()
            opt.step()
            return loss
        step(torch.randn(8, 16), torch.randint(4, (8,)));
    """,
    "GPT-2 small": """
        from transformers import GPT2Config, GPT2LMHeadModel
        model = GPT2LMHeadModel(GPT2Config()).eval()
        with torch.no_grad():
            model(torch.randint(50257, (1, 16)));
    """,
}
"""What is measured: the last one has twelve layers and random weights, nothing is downloaded."""
OPTIONS = {"simple function for a GPU": " --target sm_90"}
"""Of the magic."""
LIMITS = {
    "simple function": {"html": 25 * 1024},
    "simple function for a GPU": {"html": 60_000, "cell": 3.0},
    "8 recompilations": {"html": 60_000},
    "training step": {},
    "GPT-2 small": {"picture": 0.3},
}
"""The promises beside those that hold for each."""
COMMON = {"text": 20_000}
COLUMNS = (
    ("html", "bytes", ",.0f"), ("text", "bytes", ",.0f"), ("run", "s", ".3f"), ("picture", "s", ".3f"),
    ("picture, CPU", "s", ".3f"), ("store, in the call", "s", ".3f"), ("store, after it", "s", ".3f"),
    ("cell", "s", ".2f"), ("cell, CPU", "s", ".2f"),
)  # fmt: skip


class Shell(InteractiveShell):
    """A shell that keeps what is displayed."""

    display_pub_class = Type(CapturingDisplayPublisher)


@contextmanager
def timed(owner: Any, name: str, total: list[float]) -> Iterator[None]:
    """Inside, add up how long calls of a function take, and note both clocks when the last one ended."""
    original = getattr(owner, name)

    def measured(*arguments: Any, **keywords: Any) -> Any:
        began = time.perf_counter()
        try:
            return original(*arguments, **keywords)
        finally:
            total[:] = [total[0] + time.perf_counter() - began, time.perf_counter(), time.thread_time()]

    setattr(owner, name, measured)
    try:
        yield
    finally:
        setattr(owner, name, original)


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def measure(name: str) -> dict[str, float]:
    """Run one cell in this process; figures in bytes and seconds."""
    shell = Shell.instance()
    shell.run_cell(SETUP, silent=True)
    run, kept, graph, written, sent = ([0.0, 0.0, 0.0] for _ in range(5))
    publisher = shell.display_pub
    outputs = publisher.outputs
    # The graph's part of an entry is kept when its kernels are ready, which is inside or outside of the stage.
    with (
        timed(cells, "run", run),
        timed(entry, "keep", kept),
        timed(graphs, "write", graph),
        timed(writer, "_write", written),
        timed(publisher, "publish", sent),
    ):
        began, began_cpu = time.perf_counter(), _cpu_seconds()
        magic = f"%%compile{OPTIONS.get(name, '')}\n"
        result = shell.run_cell(magic + textwrap.dedent(CELLS[name]).strip("\n"), silent=True)
        cell = time.perf_counter() - began
        result.raise_error()
        writer.flush()
    cubins.end_workers()
    [data] = [each["data"] for each in outputs if "text/html" in each["data"]]
    return {
        "html": len(data["text/html"].encode()),
        "text": len(data["text/plain"].encode()),
        "run": run[0],
        "picture": sent[1] - run[1],
        "picture, CPU": sent[2] - run[2],
        "store, in the call": kept[0] + graph[0] if config.warm_start else 0.0,
        "store, after it": written[0],
        "cell": cell,
        "cell, CPU": _cpu_seconds() - began_cpu,
    }


def least(name: str, rounds: int) -> dict[str, float]:
    """The least of each figure in some processes; sizes are the same in all but for digits of times."""
    found = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as store:
            program = f"from benchmarks import pictures; print(pictures.json.dumps(pictures.measure({name!r})))"
            done = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", program],
                cwd=ROOT,
                env={**os.environ, "NBCOMPILE_CACHE_DIR": store},
                capture_output=True,
                text=True,
                check=True,
            )
            found.append(json.loads(done.stdout.splitlines()[-1]))
    return {each: min(one[each] for one in found) for each in found[0]}


def main() -> None:
    """Print a Markdown table; exit status 1 if a promise is not kept."""
    parser = argparse.ArgumentParser(prog="benchmarks.pictures", description=__doc__)
    parser.add_argument("cells", nargs="*", metavar="CELL", help=", ".join(CELLS))
    parser.add_argument("--rounds", type=int, default=3, help="number of processes, each (default: %(default)s)")
    options = parser.parse_args()
    missed = []
    print("|".join(("", " cell ", *(f" {each}, {unit} " for each, unit, _ in COLUMNS), "")))
    print("|---" * (len(COLUMNS) + 1) + "|")
    for name in options.cells or CELLS:
        found = least(name, options.rounds)
        print("|".join(("", f" {name} ", *(f" {found[each]:{how}} " for each, _, how in COLUMNS), "")), flush=True)
        for what, most in (COMMON | LIMITS[name]).items():
            if found[what] > most:
                missed.append(f"{name}: {what} is {found[what]:,.3f}, the limit is {most:,}")
    sys.exit("\n".join(missed) or None)


if __name__ == "__main__":
    main()
