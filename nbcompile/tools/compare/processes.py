"""Run one job with both compilers, each in a process of its own with a time limit.

    found = run(jobs.pickled(job), ("nbcompile", "torch"), seconds=300)
    found["nbcompile"].record            the record of nbcompile
    found["torch"].record                that of torch.compile, read from its structured trace
    found["torch"].result["outcomes"]    what the calls led to

In torch: torch/_inductor/autotune_process.py. Read next: nbcompile/tools/compare/child.py
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from nbcompile.observe import trace_reader
from nbcompile.record import codec
from nbcompile.record.model import Record
from nbcompile.tools.compare import child, job as jobs

MOST_OUTPUT = 64 << 10
"""Characters of a process's output that are kept."""
TORCH_VARIABLES = {
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",  # a cached graph would be no compile to compare with
    "TORCHINDUCTOR_COMPILE_THREADS": "1",  # a pool of processes outlives a time limit
}


@dataclass(slots=True)
class Finished:
    """The results that one process left behind."""

    record: Record
    result: dict[str, Any] = field(default_factory=dict)
    output: str = ""
    notes: tuple[str, ...] = ()


def run(job: bytes, engines: tuple[str, ...], seconds: float) -> dict[str, Finished]:
    """Run a job with each engine (``"nbcompile"``, ``"torch"``), one after the other: their times are compared."""
    ends, found = time.monotonic() + seconds, dict[str, Finished]()
    for engine in engines:
        with (
            tempfile.TemporaryDirectory(prefix="nbcompile-compare-") as folder,
            _Process(engine, Path(folder), job) as process,
        ):
            found[engine] = process.finish(ends, seconds)
    return found


class _Process:
    """A child process, which ends with the block."""

    def __init__(self, engine: str, folder: Path, job: bytes) -> None:
        self.engine, self.folder = engine, folder
        (folder / jobs.JOB).write_bytes(job)
        search = [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, search))}
        environment.pop("TORCH_LOGS", None)
        if engine == "torch":
            environment |= {**TORCH_VARIABLES, "TORCH_TRACE": str(folder / "trace")}
        with (folder / "output").open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "nbcompile.tools.compare.child", engine, str(folder)],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment,
                start_new_session=True,
            )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def finish(self, ends: float, seconds: float) -> Finished:
        """Wait for the end, and read what there is."""
        failure = ""
        try:
            code = self.process.wait(max(ends - time.monotonic(), 0.0))
            failure = f"killed by signal {-code}" if code < 0 else f"exit code {code}" if code else ""
        except subprocess.TimeoutExpired:
            failure = f"did not end within {seconds:g} seconds"
            self.__exit__()
        output = (self.folder / "output").read_text(encoding="utf-8", errors="replace")[-MOST_OUTPUT:]
        result: dict[str, Any] = {}
        with contextlib.suppress(OSError):
            result = pickle.loads((self.folder / jobs.RESULT).read_bytes())  # noqa: S301 - our own child wrote it
        if failure and not result.get("failure"):
            result["failure"] = f"{failure}: {output.strip().splitlines()[-1][:200]}" if output.strip() else failure
        record, notes = self._record()
        return Finished(record, result, output, notes)

    def _record(self) -> tuple[Record, tuple[str, ...]]:
        try:
            if self.engine == "torch":
                opened = trace_reader.read(self.folder / "trace", first=True)
                others = (f"only rank 0 of {len(opened.records)} is compared",) if len(opened.records) > 1 else ()
                return next(iter(opened.records.values())), (*opened.notes, *others)
            return codec.from_json((self.folder / child.RECORD).read_text(encoding="utf-8")), ()
        except (OSError, ValueError) as error:
            return Record("program"), (f"nothing that {self.engine} compiled was recorded: {error}",)
