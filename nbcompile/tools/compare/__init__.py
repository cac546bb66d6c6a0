"""The same program through nbcompile and through the real torch.compile, aligned by source line.

    print(nbcompile.compare(f)(x))           what differs comes first
    nbcompile.compare(f, further_calls=[(y,)])(x)     a second call, to compare recompilations
    comparison.to_json()                     everything, as data

Each compiler runs in a separate process, so that neither disturbs the other, nor the notebook.

In torch: nothing compares compilers; torch/_dynamo/debug_utils.py compares results. Read next:
nbcompile/tools/compare/job.py, processes.py, align.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nbcompile.eval_frame.compiled_module import CompiledModule
from nbcompile.record.comparison import Comparison, EngineRun
from nbcompile.record.model import Record
from nbcompile.support import wrappers
from nbcompile.tools.compare import align, job as jobs, processes
from nbcompile.tools.compare.processes import EngineResult
from nbcompile.tools.diagnose import outcome
from nbcompile.views.comparison import ComparisonView

SECONDS = 300.0
"""Default limit of both processes together."""
ENGINES = ("nbcompile", "torch")


def compare(
    function: Callable[..., Any],
    *,
    further_calls: Sequence[Sequence[Any]] = (),
    seconds: float = SECONDS,
    **options: Any,
) -> Callable[..., ComparisonView]:
    """Run a function through nbcompile and through the real torch.compile, and compare the two.

    Args:
        function: a function, method or module; of a compiled one, the original is compared.
        further_calls: the positional arguments of calls after the first, to compare recompilations.
        seconds: time limit.
        **options: of both ``compile`` functions (``dynamic``, ``fullgraph``, ``backend``, ``mode``).

    Returns:
        A function with the same arguments that returns a :class:`ComparisonView`. It raises
        :class:`job.CannotSendError` where a value cannot be sent to another process.
    """
    meant = original(function)
    if not callable(meant):
        raise TypeError(f"compare expects a function or a module, and not {type(meant).__name__}")

    def compared(*arguments: Any, **keywords: Any) -> ComparisonView:
        calls = ((arguments, keywords), *((tuple(more), {}) for more in further_calls))
        work = jobs.CallJob(meant, calls, options)
        return ComparisonView(_of_job(getattr(meant, "__name__", type(meant).__name__), work, seconds))

    return compared


def compare_script(
    path: Path, arguments: Sequence[str] = (), seconds: float = SECONDS, given: bytes = b""
) -> Comparison:
    """Run a program twice: ``nbcompile.compile`` and ``torch.compile`` both mean nbcompile, then torch.compile.

    Args:
        path: the program.
        arguments: its arguments.
        seconds: time limit of both runs together.
        given: its standard input, in each run.

    Raises:
        FileNotFoundError: there is no such program.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    return _of_job(path.name, jobs.ScriptJob(str(path.resolve()), tuple(arguments)), seconds, given)


def compare_cell(ours: Record, theirs: EngineResult) -> Comparison:
    """Compare the record of a notebook cell with that of the real torch.compile."""
    return align.align(ours.function, ours, theirs.record, EngineRun(), _run(theirs, [], []), theirs.notes)


def original(function: Any) -> Any:
    """The callable that nbcompile or torch.compile wrapped; any other value itself."""
    if isinstance(function, CompiledModule):
        return function._modules["_orig_mod"]
    return wrappers.innermost(function)


def _of_job(title: str, work: jobs.CallJob | jobs.ScriptJob, seconds: float, given: bytes = b"") -> Comparison:
    found = processes.run(jobs.pickle_job(jobs.Job(work, jobs.process_settings())), ENGINES, seconds, given)
    ours, theirs = (found[engine] for engine in ENGINES)
    eager, exact = ours.result.get("eager", []), ours.result.get("exact", [])
    runs = (_run(ours, eager, exact), _run(theirs, eager, exact))
    return align.align(title, ours.record, theirs.record, *runs, (*ours.notes, *theirs.notes))


def _run(found: EngineResult, eager: list[outcome.Outcome], exact: list[outcome.Outcome]) -> EngineRun:
    outcomes = found.result.get("outcomes", [])
    differences = [
        outcome.difference(expected, own, wide if not wide.error else None)
        for expected, own, wide in zip(eager, outcomes, exact, strict=False)
    ]
    return EngineRun(
        difference=next((f"call {at}: {text}" for at, text in enumerate(differences, 1) if text), ""),
        failure=found.result.get("failure", ""),
        first_call_seconds=found.result.get("first_call_seconds"),
        call_seconds=found.result.get("call_seconds"),
        program_seconds=found.result.get("program_seconds"),
        output=found.output,
    )
