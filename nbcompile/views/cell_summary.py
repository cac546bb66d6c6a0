"""Summary of a cell in plain sentences, above all tables and pictures.

    The whole function is one frame and one graph. Its 4 operators run as 1 generated kernel.

    2 frames compiled, of 2 code objects. 1 distinct graph break ended 1 frame.
    `f` stops at line 3, which runs eagerly: Attempted to call function marked as skipped. The rest of it is
    `torch_dynamo_resume_in_f_at_3`.

The most frequent events come first, a few of each kind; the sections below have them all.

In torch: nothing. Read next: nbcompile/views/facts.py
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from nbcompile.record import links, model
from nbcompile.record.model import FROM_STORE, LOADED, LOADED_FROM_CACHE, CompiledFrame, Record, StackLine
from nbcompile.views import break_sentences, facts, figures, guard_failures, user_errors
from nbcompile.views.facts import count

_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_\d+")
"""The name of a resume function, with that of the user's function."""
FEW = 3
"""Number of breaks, causes and frames that are named individually."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One or two sentences; code is between backticks."""

    text: str
    reference: str = ""
    """Provenance of its numbers (figures.py)."""
    location: StackLine | None = None
    """A line of the user's to show below it."""


def of(record: Record) -> list[Sentence]:
    """The summary in words."""
    # In the order of a reader's questions: did my program fail, was it compiled, what
    # runs now, where does a graph end, why was it compiled again, what ran eagerly?
    sentences = [*_user_error(record), Sentence(outcome(record), figures.of_sentence(record))]
    sentences += _work(record)
    sentences += islice(_through_aten(record), FEW)
    sentences += _loaded(record)
    sentences += islice(_breaks(record), FEW)
    sentences += _training_step(record)
    sentences += _recompilations(record)
    sentences += islice(_left_alone(record), FEW)
    return sentences


def _user_error(record: Record) -> Iterator[Sentence]:
    """The exception that ended the user's program, which comes first."""
    found = user_errors.of(record)
    if found is None or found.location is None:
        return
    message = found.message.strip().partition("\n")[0].replace("`", "'")
    function = _RESUMED.sub(r"\1", found.location.function)
    where = "Code outside of functions" if function == "<module>" else f"`{function}`"
    text = f"{where} raises `{found.error}` at line {found.location.line}"
    reference = f"raised.stack.{found.position}.line" if found.position >= 0 else ""
    yield Sentence(f"{text}: `{message}`" if message else f"{text}.", reference, found.location)
    if called := user_errors.call(found):
        yield Sentence(called)
    if found.advice:
        yield Sentence(found.advice)


def outcome(record: Record) -> str:
    """Sentence on the compiled frames and their ends."""
    if not record.frames:
        return _without_frames(record)
    compiled = sum(each.status == "compiled" for each in record.frames)
    breaks = links.distinct_breaks(record)
    if not compiled:
        return f"No frame was compiled: {'; '.join(_not_compiled(record))}."
    if len(record.frames) == 1 and not breaks:
        if record.frames[0].graph is None:
            return "The whole function is one frame; no operator was called, so it has no graph."
        return "The whole function is one frame and one graph."
    sentence = f"{count(compiled, 'frame')} compiled, of {count(len(links.entries(record)), 'code object')}"
    if breaks:
        ended = sum(len(each.frames) for each in breaks)
        return f"{sentence}. {count(len(breaks), 'distinct graph break')} ended {count(ended, 'frame')}."
    return f"{sentence}."


def _without_frames(record: Record) -> str:
    """Sentence for calls without a compilation: the code that they ran."""
    ran = dict.fromkeys((each.function, bool(each.entry), each.reason) for each in record.calls)
    if not ran and record.raised is not None:
        return "Nothing was compiled: the exception came before a compiled function began to run."
    if not ran:
        return "Nothing was compiled: no compiled function was called."
    return " ".join(_of_calls(*each) for each in ran)


def _of_calls(function: str, is_hit: bool, reason: str) -> str:
    if is_hit:
        return f"Nothing new was compiled: `{function}` ran code that was compiled before."
    return f"`{function}` ran eagerly{': ' + reason if reason else ''}."


def _not_compiled(record: Record) -> Iterator[str]:
    """Sentence on frames of which none was compiled."""
    for instead, text in _INSTEAD.items():
        left = [each for each in record.frames if each.instead == instead]
        names = _names([each for each in left if not facts.is_incidental(each)] or left)
        if names:
            yield text.format(names=names)


_INSTEAD = {
    model.EAGER: "{names} ran eagerly",
    model.RAISED: "compiling {names} ended in an error, so that it did not run",
    model.INTERRUPTED: "compiling {names} was interrupted, so that it did not run",
    "": "compiling {names} failed",
}


def _names(frames: Iterable[CompiledFrame]) -> str:
    """``f``, ``g``, ``h`` and others."""
    names = list(dict.fromkeys(f"`{facts.name(each)}`" for each in frames))
    return ", ".join(names[:FEW]) + (" and others" if len(names) > FEW else "")


def _work(record: Record) -> Iterator[Sentence]:
    compiled = [frame for frame in record.frames if frame.status == "compiled"]
    operators = sum(len(links.operators(frame.graph)) for frame in compiled if frame.graph)
    compiled_graphs = [frame.compiled_graph for frame in record.frames if frame.compiled_graph]
    is_call = [kernel.language == "aten" for graph in compiled_graphs for kernel in graph.kernels]
    if operators and is_call:
        yield _work_sentence(compiled, operators, is_call.count(False), is_call.count(True))


def _work_sentence(compiled: Sequence[CompiledFrame], operators: int, kernels: int, called: int) -> Sentence:
    parts = [
        (kernels, "generated kernel", f"frames.{figures.KERNELS}"),
        (called, "ATen call", f"frames.{figures.CALLS}"),
    ]
    work = " and ".join(count(number, noun) for number, noun, _ in parts if number)
    references = (f"{figures.GRAPHS}.{figures.OPERATORS}", *(reference for number, _, reference in parts if number))
    learns = any(graph.stage == "backward" for frame in compiled for graph in links.graphs(frame))
    them = count(operators, "operator") + (" and what autograd needs of them" if learns else "")
    return Sentence(f"{them} {'runs' if operators == 1 and not learns else 'run'} as {work}.", " ".join(references))


def _through_aten(record: Record) -> Iterator[Sentence]:
    """Sentences on the graphs for which no kernel was generated, with the reason."""
    for frame in record.frames:
        compiled = frame.compiled_graph
        if frame.status == "compiled" and compiled is not None and compiled.notes and not compiled.kernels:
            yield Sentence(f"No kernel was generated for `{facts.name(frame)}`: {compiled.notes[0]}.")


def _loaded(record: Record) -> Iterator[Sentence]:
    """Sentence on cache hits: entries compiled before this cell, by this process or another one."""
    loaded = [each for each in record.frames if each.cause in FROM_STORE]
    if loaded and len(loaded) == len(record.frames):
        causes = {each.cause for each in loaded}
        where = f", where {_STORED_BY[causes.pop()]}" if len(causes) == 1 else ""
        yield Sentence(f"All of it was loaded from the compile cache{where}: nothing was compiled now.")
        return
    for cause, stored in _STORED_BY.items():
        if names := _names(each for each in loaded if each.cause == cause):
            yield Sentence(f"Loaded from the compile cache, where {stored}: {names}.")


_STORED_BY = {LOADED: "another process stored it", LOADED_FROM_CACHE: "this process stored it before"}


def _breaks(record: Record) -> Iterator[Sentence]:
    """Sentences on the distinct breaks, each in the function whose graph it ended first."""
    frames = {each.id: each for each in record.frames}
    for distinct in links.distinct_breaks(record):
        frame = frames[distinct.frames[0]]
        line = links.own_line(frame, distinct.cause.stack)
        if frame.status != "compiled" or line is None or frame.breaks[0].stack != distinct.cause.stack:
            continue
        rest = _rest_of(record, frame)
        inner = distinct.cause.stack[-1].function
        why = f"in whose call `{inner}` breaks" if len(distinct.cause.stack) > 1 else "which runs eagerly"
        called = _call_that_raises(record, distinct.cause) or break_sentences.what_breaks(distinct.cause)
        what = f"it {called}" if called else distinct.cause.title.rstrip(".")
        yield Sentence(
            f"{_named(record, frame)} stops at line {line}, {why}: {what}.{rest}",
            figures.of_end(frame, figures.of_frame(record, frame)),
        )


def _call_that_raises(record: Record, cause: model.Break) -> str:
    """Description of a breaking call that is itself the error of the program; "" if it is not."""
    found = user_errors.of(record)
    if found is None or found.location is None or not cause.callee:
        return ""
    at, raised = cause.stack[-1], found.location
    is_here = (at.file, at.line, at.column, at.end_column) == (
        raised.file,
        raised.line,
        raised.column,
        raised.end_column,
    )
    return f"{break_sentences.call_of(cause)}, which raises `{found.error}`" if is_here else ""


def _rest_of(record: Record, frame: CompiledFrame) -> str:
    """Name of the resume function; if one line breaks twice, two have the same name."""
    rest = next((each.name for each in frame.resume_functions if not each.branch), "")
    if not rest:
        return ""
    known = next((each for each in record.frames if each.resumes == frame.id and each.function == rest), None)
    if known is not None and _has_namesake(record, known):
        return f" The rest of it is {_named(record, known)}."
    another = "another function named " if rest == frame.function else ""
    return f" The rest of it is {another}`{rest}`."


def _named(record: Record, frame: CompiledFrame) -> str:
    """Name of a frame, with its compile id where another code object has the same name."""
    name = f"`{facts.name(frame)}`"
    return f"{name} (frame {frame.id})" if _has_namesake(record, frame) else name


def _has_namesake(record: Record, frame: CompiledFrame) -> bool:
    """Return whether a resume function of another frame has the same name."""
    entries = {each.id.partition("/")[0] for each in record.frames if each.resumes and each.function == frame.function}
    return bool(frame.resumes) and len(entries) > 1


def _recompilations(record: Record) -> Iterator[Sentence]:
    """Each cause once: repeated changes of one value are one cause."""
    causes: dict[object, list[Sentence]] = {}
    for frame in record.frames:
        if frame.failed_guards and frame.status == "compiled":
            failure = guard_failures.guard_failure(record, frame.failed_guards[0])
            about = (frame.function, frame.failed_guards[0].source or failure.what, failure.dimension)
            causes.setdefault(about, []).append(Sentence(_recompiled(frame, failure)))
    for first, *more in islice(causes.values(), FEW):
        yield first
        if more:
            yield Sentence("Further values of it led to further recompilations.")
    if len(causes) > FEW:
        yield Sentence("Other causes led to recompilations, too.")


def _recompiled(frame: CompiledFrame, failure: guard_failures.GuardFailure) -> str:
    has_values = failure.expected and failure.actual
    values = f" (expected `{failure.expected}`, got `{failure.actual}`)" if has_values else ""
    where = f", dimension `{failure.dimension}`" if failure.dimension else ""
    compiled = "was loaded for other values" if frame.cause in FROM_STORE else "was compiled again"
    return (
        f"`{facts.name(frame)}` {compiled}, because a guard of `{failure.entry}` failed{values}: {failure.what}{where}."
    )


def _training_step(record: Record) -> Iterator[Sentence]:
    """Advice for a training step that is compiled as a whole and breaks after the forward pass."""
    found: dict[str, None] = {}
    for distinct in links.distinct_breaks(record):
        calls = (distinct.cause.callee, *(line.code for line in distinct.cause.stack))
        found |= dict.fromkeys(
            name for name in _AFTER_FORWARD if any(re.search(rf"\.{name}\b", text) for text in calls)
        )
    # A method called ``step`` may be of any object: two of the names, or a backward pass, are a training step.
    if len(found) < 2 and "backward" not in found:
        return
    names = ", ".join(f"`{name}`" for name in _AFTER_FORWARD if name in found)
    yield Sentence(
        f"Breaks at {names}: this is a whole training step. Compile the forward pass, for instance the model or the "
        "function that computes the loss, and call `zero_grad`, `backward` and `step` outside of it: the backward "
        "pass of a compiled forward pass is compiled, too."
    )


_AFTER_FORWARD = ("zero_grad", "backward", "step")


def _left_alone(record: Record) -> Iterator[Sentence]:
    """The functions that ran eagerly, each with its first reason: a recursion has a hundred frames."""
    named: set[tuple[str, int, str]] = set()
    for frame in record.frames:
        aside = facts.library(frame) or facts.is_incidental(frame)
        code = (frame.file, frame.first_line, frame.function)
        if frame.id.endswith("/-"):  # where the limit is reached there is no entry, so no number of one
            yield Sentence(
                f"A further call of `{facts.name(frame)}` {break_sentences.ended_by(frame, ()).rstrip('.')}."
            )
        elif frame.status in ("skipped", "failed") and not ((aside and record.frames[0] is not frame) or code in named):
            named.add(code)
            yield Sentence(f"`{facts.name(frame)}` {break_sentences.ended_by(frame, ()).rstrip('.')}{_where(frame)}.")


def _where(frame: CompiledFrame) -> str:
    """Line of the break that caused the whole frame to be skipped."""
    first = frame.breaks[0] if frame.breaks else None
    line = links.own_line(frame, first.stack) if first is not None else None
    if first is None or line is None:
        return ""
    if not first.callee:
        return f" (line {line})"
    inner = f", in whose call `{first.stack[-1].function}`" if len(first.stack) > 1 else ""
    return f" (line {line}{inner} {break_sentences.call_of(first)})"
