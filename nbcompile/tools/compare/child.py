"""The process that runs a job with one compiler: ``python -m nbcompile.tools.compare.child ENGINE FOLDER``.

    nbcompile    runs the job compiled by nbcompile (calls: in eager mode before), and writes the record
    torch        runs it compiled by the real torch.compile; TORCH_TRACE, set by the parent, writes the trace

In torch: torch/_inductor/compile_worker/__main__.py. Read next: nbcompile/tools/compare/align.py
"""

from __future__ import annotations

import contextlib
import functools
import marshal
import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import CodeType
from typing import Any

import torch

from nbcompile import api, config
from nbcompile.record import codec
from nbcompile.tools import child_process, main_program
from nbcompile.tools.compare import job as jobs
from nbcompile.tools.compare.job import CallJob, CellJob, Job, ScriptJob
from nbcompile.tools.diagnose import outcome
from nbcompile.tools.diagnose.outcome import Outcome

TIMED_CALLS = 20
PLAIN = (int, float, complex, bool, str, bytes, type(None), torch.Tensor)
Compile = Callable[..., Any]


def main(engine: str, folder: Path) -> None:
    """Run the job of a folder, and write its result there."""
    job = jobs.read_job(folder)
    jobs.apply_settings(job.process_settings)
    result: dict[str, Any] = {}
    first = os.getpid()
    with _engine(engine, folder) as compiler:
        try:
            _run(job, compiler, result, eager=engine == "nbcompile")
        except SystemExit as end:
            if end.code:
                result["failure"] = f"exit code {end.code}"
        except Exception as error:  # noqa: BLE001 - it is the outcome
            traceback.print_exception(error)
            result["failure"] = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        finally:
            # A program that forks reaches this line in each process, and only one of them may write the result.
            child_process.leave_if_forked(first)
    (folder / jobs.RESULT).write_bytes(pickle.dumps(result))


@contextlib.contextmanager
def _engine(engine: str, folder: Path) -> Iterator[Compile]:
    """One compiler instead of both."""
    # The program may call ``nbcompile.compile`` or ``torch.compile``: both names become the chosen compiler.
    packages: tuple[Any, Any] = (sys.modules["nbcompile"], torch)
    if engine == "torch":
        packages[0].compile = torch.compile
        yield torch.compile
        return
    packages[1].compile = api.compile
    recorder = api.new_recorder("program")
    try:
        with config.patch(warm_start=False, background=False), recorder.listening(threads="all"):
            yield api.compile
    finally:
        (folder / jobs.RECORD).write_text(codec.to_json(recorder.record()), encoding="utf-8")


def _run(job: Job, compiler: Compile, result: dict[str, Any], *, eager: bool) -> None:
    match job.work:
        case CallJob() as work:
            if eager:
                result["eager"] = [_plain(_outcome(work.function, call)) for call in work.calls]
                result["exact"] = [_plain(_exact(work.function, call)) for call in work.calls]
            compiled = compiler(work.function, **work.options)
            began = time.perf_counter()
            result["outcomes"] = [_plain(_outcome(compiled, work.calls[0]))]
            result["first_call_seconds"] = time.perf_counter() - began
            result["outcomes"] += [_plain(_outcome(compiled, call)) for call in work.calls[1:]]
            if not any(found.error for found in result["outcomes"]):
                positional, named = work.calls[-1]
                result["call_seconds"] = outcome.run(compiled, positional, named, TIMED_CALLS).seconds
        case CellJob() as work:
            _run_cell(work, compiler, result)
        case ScriptJob() as work:
            began = time.perf_counter()
            main_program.run(work.path, work.arguments)
            result["program_seconds"] = time.perf_counter() - began


def _run_cell(work: CellJob, compiler: Compile, result: dict[str, Any]) -> None:
    namespace = dict(work.namespace)
    namespace["__name__"] = "__main__"
    namespace[work.wrapper] = work.wrap(functools.partial(compiler, **work.options), [])
    began = time.perf_counter()
    for code in map(marshal.loads, work.codes):  # written by our own parent process
        assert isinstance(code, CodeType)
        exec(code, namespace)
    result["program_seconds"] = time.perf_counter() - began


def _outcome(function: Callable[..., Any], call: tuple[tuple[Any, ...], Mapping[str, Any]]) -> Outcome:
    return outcome.run(function, call[0], call[1])


def _exact(function: Callable[..., Any], call: tuple[tuple[Any, ...], Mapping[str, Any]]) -> Outcome:
    found = outcome.exact(function, call[0]) if not call[1] else None
    return found if found is not None else Outcome(error="not run in float64")


def _plain(found: Outcome) -> Outcome:
    """The outcome with values that the parent can read: an object is replaced by the name of its class."""
    values = tuple(value if isinstance(value, PLAIN) else type(value).__qualname__ for value in found.values)
    return Outcome(values, found.error, found.internal, found.seconds)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
