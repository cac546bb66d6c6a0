"""Run one job with both compilers, each in a separate process with a time limit.

    found = run(jobs.pickle_job(job), ("nbcompile", "torch"), seconds=300)
    found["nbcompile"].record            the record of nbcompile
    found["torch"].record                that of torch.compile, read from its structured trace
    found["torch"].result["outcomes"]    the outcomes of the calls

In torch: torch/_inductor/autotune_process.py. Read next: nbcompile/tools/compare/child.py
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbcompile.observe import trace_reader
from nbcompile.record import codec
from nbcompile.record.model import Record
from nbcompile.tools import child_process
from nbcompile.tools.compare import job as jobs

TORCH_VARIABLES = {
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",  # a cached graph would not be compiled
    "TORCHINDUCTOR_COMPILE_THREADS": "1",  # a pool of processes outlives a time limit
}


@dataclass(slots=True)
class EngineResult:
    """The results of one process."""

    record: Record
    result: dict[str, Any] = field(default_factory=dict)
    output: str = ""
    notes: tuple[str, ...] = ()


def run(job: bytes, engines: tuple[str, ...], seconds: float, given: bytes = b"") -> dict[str, EngineResult]:
    """Run a job with each engine (``"nbcompile"``, ``"torch"``), one after the other: their times are compared.

    Args:
        job: a result of :func:`job.pickle_job`.
        engines: the compilers.
        seconds: time limit of all together.
        given: standard input of each process.
    """
    ends, found = time.monotonic() + seconds, dict[str, EngineResult]()
    for engine in engines:
        with tempfile.TemporaryDirectory(prefix="nbcompile-compare-") as name:
            folder = Path(name)
            (folder / jobs.JOB).write_bytes(job)
            command = [sys.executable, "-m", "nbcompile.tools.compare.child", engine, name]
            left = max(ends - time.monotonic(), 0.0)
            ended = child_process.run(command, left, _environment(engine, folder), given, together=True)
            found[engine] = _finished(engine, folder, ended, seconds)
    return found


def _environment(engine: str, folder: Path) -> dict[str, str]:
    search = [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, search))}
    # Such output would be compared as the program's, but always differs.
    environment.pop("TORCH_LOGS", None)
    if engine == "torch":
        environment |= {**TORCH_VARIABLES, "TORCH_TRACE": str(folder / "trace")}
    return environment


def _finished(engine: str, folder: Path, ended: child_process.ProcessResult, seconds: float) -> EngineResult:
    """Read the files of a process that has ended, with or without an error."""
    code, output, result = ended.code, ended.errors, dict[str, Any]()
    failure = f"killed by signal {-code}" if code < 0 else f"exit code {code}" if code else ""
    if code == child_process.HUNG:
        failure = f"did not end within {seconds:g} seconds"
    with contextlib.suppress(OSError):
        result = pickle.loads((folder / jobs.RESULT).read_bytes())  # noqa: S301 - our own child wrote it
    if not failure and not result:
        failure = "ended before it was finished, with exit code 0 (os._exit?)"
    if failure and not result.get("failure"):
        result["failure"] = f"{failure}: {output.strip().splitlines()[-1][:200]}" if output.strip() else failure
    record, notes = _record(engine, folder)
    return EngineResult(record, result, output, notes)


def _record(engine: str, folder: Path) -> tuple[Record, tuple[str, ...]]:
    try:
        if engine == "torch":
            opened = trace_reader.read(folder / "trace", first=True)
            others = (f"only rank 0 of {len(opened.records)} is compared",) if len(opened.records) > 1 else ()
            return next(iter(opened.records.values())), (*opened.notes, *others)
        return codec.from_json((folder / jobs.RECORD).read_text(encoding="utf-8")), ()
    except (OSError, ValueError) as error:
        return Record("program"), (f"nothing that {engine} compiled was recorded: {error}",)
