"""Torch's logs, written while the compiler works.

    TORCH_LOGS=graph_breaks,recompiles python f.py      or nbcompile.set_logs(graph_breaks=True)

    Graph break in user code at f.py:7
    Graph Break Reason: Encountered graph break when attempting to trace CALL: a function call, e.g. f(x, y):
    ...

The record (record/) holds the same, and more, as data. A break that was logged
before is logged in short: in the default mode each caller breaks there again.

In torch: log_graph_break in torch/_dynamo/symbolic_convert.py and
torch/_logging/. Read next: nbcompile/driver/stages.py
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from nbcompile import config, torch_internals
from nbcompile.errors import GraphBreakWarning, report_text, stack_lines
from nbcompile.record.model import Break, FailedGuard, Mutation, StackLine
from nbcompile.support.process_state import STATE, Lifetime

GRAPH_BREAKS, RECOMPILES, SIDE_EFFECTS = map(
    torch_internals.artifact_logger, ("graph_breaks", "recompiles", "side_effects")
)
# The folder of nbcompile. Frames of its files are left out of the stacks that users see.
HERE = str(Path(__file__).parents[1])
SECOND = "\n\n*** While handling this graph break, another graph break occurred: ***\n\n"
RESUMED = re.compile(r"torch_dynamo_resume_in_(\w+)_at_\d+")
NOTE = (
    "NOTE: the most recent `torch.compile` tracing attempt might not be where you applied `torch.compile`: after a "
    "graph break the rest of the function is a function of its own, which is called, and compiled as any other."
)

_logged: set[object] = STATE.add("observe.torch_logs._logged", set(), Lifetime.RESET)
"""The title and location of each break that was logged in full."""
_warned: set[str] = STATE.add("observe.torch_logs._warned", set(), Lifetime.PROCESS)
"""Warnings that this process has given."""


@STATE.on_reset
def reset() -> None:
    """Log every break in full again."""
    _logged.clear()


def warn_once(report: Break) -> None:
    """Warn users who read no reports of code that cannot be traced, with a hint and its location."""
    if report.explanation in _warned:
        return
    _warned.add(report.explanation)
    lines = [f"Graph break: {report.explanation}", *report.hints, "from user code:", *stack_lines(report.stack)]
    file, line = (report.stack[-1].file, report.stack[-1].line) if report.stack else ("", 0)
    warnings.warn_explicit("\n".join(lines), GraphBreakWarning, file, line)


def warn_of_output(text: str) -> None:
    """Warn in one line about logs and traces themselves, once for each text."""
    if text not in _warned:
        _warned.add(text)
        logging.getLogger("nbcompile").warning("%s", text)


def graph_break(reports: Sequence[Break], compile_id: str) -> None:
    """Log a break; if no resume function can follow, a second report has the reason."""
    if not GRAPH_BREAKS.isEnabledFor(10):
        return
    first, last = reports[0], reports[-1]
    location = f"{first.stack[-1].file}:{first.stack[-1].line}" if first.stack else "an unknown location"
    # Where breaks may be nested, the same line reached through other calls is another break.
    chain = tuple((each.file, each.line) for each in first.stack) if config.nested_graph_breaks else location
    reason = _reason(last, SECOND.join(map(report_text, reports)))
    with torch_internals.compiling(compile_id):
        if (first.title, chain) in _logged:
            GRAPH_BREAKS.debug(
                "Graph break (user stack suppressed due to duplicate graph break) in user code at %s\n"
                "Graph Break Reason: %s",
                location,
                reason,
            )
            return
        _logged.add((first.title, chain))
        GRAPH_BREAKS.debug("%s", "\n".join(_full(first, location, reason)))


def _full(report: Break, location: str, reason: str) -> Iterable[str]:
    yield f"Graph break in user code at {location}"
    yield f"Graph Break Reason: {reason}"
    if report.operands:
        yield "\nStack variable source attribution:"
        for operand in report.operands:
            line, *rest = stack_lines((operand.made_by,))
            yield f"  {operand.value} originated from:\n{line.rpartition(', in ')[0]}"
            yield from rest
    yield "\nUser code traceback:"
    above = _stack_above()
    if not config.verbose:
        yield from stack_lines(_collapsed((*above, *report.stack)))
        return
    yield from stack_lines(above)
    yield "\n========== most recent `torch.compile` tracing attempt started here ==========\n"
    yield from stack_lines(report.stack)
    yield f"\n{NOTE}\n\nMost recent bytecode instructions traced:"
    yield from report.traced


def _reason(report: Break, text: str) -> str:
    match report.reason:
        case "":
            return text
        case why if why.startswith("when"):
            return f"Encountered graph break {why}:\n\n{text}"
        case why:
            return f"{why} Graph break encountered:\n\n{text}"


def _stack_above() -> tuple[StackLine, ...]:
    """The call stack of the function that is compiled: Python's own, without nbcompile's frames."""
    frames = [each for each in traceback.extract_stack(sys._getframe()) if not each.filename.startswith(HERE)]
    return tuple(map(_stack_line, frames))


def _stack_line(frame: traceback.FrameSummary) -> StackLine:
    line = (frame.line or "").strip()
    return StackLine(frame.filename, frame.lineno or 0, frame.name, line)


def _collapsed(stack: Iterable[StackLine]) -> tuple[StackLine, ...]:
    """The stack, with one line for a function and the resume functions in which it continues: the current line."""
    shown: list[StackLine] = []
    for line in stack:
        found = RESUMED.fullmatch(line.function)
        name = found[1] if found else line.function
        if found and shown and shown[-1].function == name:
            shown.pop()
        shown.append(StackLine(line.file, line.line, name, line.code, line.column, line.end_column))
    return tuple(shown)


def recompiled(function: str, location: str, failed: Sequence[FailedGuard], compile_id: str) -> None:
    """Log the reasons why no entry accepted a call, newest entry first."""
    if not failed or not RECOMPILES.isEnabledFor(10):
        return
    reasons = "\n".join(f"    - {each.compile_id}: {each.reason}" for each in failed)
    with torch_internals.compiling(compile_id):
        RECOMPILES.debug(
            "Recompiling function %s in %s\n    triggered by the following guard failure(s):\n%s",
            function,
            location,
            reasons,
        )


def side_effects(mutations: Callable[[], Sequence[Mutation]], compile_id: str) -> None:
    """The side effects that the residual program replays."""
    # A function builds the texts, so that they cost nothing while the log is off.
    if not SIDE_EFFECTS.isEnabledFor(10):
        return
    with torch_internals.compiling(compile_id):
        for effect in mutations():
            SIDE_EFFECTS.debug("%s", side_effect_text(effect))


def side_effect_text(mutation: Mutation) -> str:
    """Text of a side effect: the changed object, the statements that replay it, and the user's lines."""
    lines = [f"Mutating {mutation.target or 'object'} ({mutation.kind})"]
    lines += [f"    {line}" for line in mutation.code.splitlines()]
    return "\n".join([*lines, *stack_lines(mutation.stack)])
