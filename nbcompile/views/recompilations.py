"""Recompilations: the entry of each call, the guards that failed, remedies, and changes of the new entry.

    calls      0/0         0/1                  0/1 f was compiled because a guard of each older entry failed
    1          compiled                         0/0   size of tensor 'x', dimension 0: expected 3, actual 4
    2-3        hit                                    advice: mark_dynamic(x, 0) (tried: it helps)
    4          failed      compiled             - x.size()[0] == 3      + 2 <= x.size()[0]

In torch: TORCH_LOGS=recompiles prints the reasons. Read next: nbcompile/views/what_if.py
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

from markupsafe import Markup

from nbcompile.record import links
from nbcompile.record.model import Call, CompiledFrame, FailedGuard, Record
from nbcompile.views import break_sentences, facts, figures, guard_failures, lines, recompile_causes
from nbcompile.views.breaks import stack
from nbcompile.views.markup import Content, Limits, chip, code, fold, join, row, section, table, tag


def render(record: Record, limits: Limits) -> Markup | None:
    """The failed guard of each older entry, for each recompilation."""
    recompiled = [frame for frame in record.frames if frame.failed_guards]
    if not recompiled:
        return None
    shown, more = limits.cut(recompile_causes.causes(record, recompiled))
    parts = [
        _cause(record, cause)
        if len(cause.frames) >= facts.SEVERAL and limits.repeated
        else [_recompile(record, frame, limits, is_open=len(recompiled) < 4) for frame in cause.frames]
        for cause in shown
    ]
    about = f"{facts.recompilations(record)}: no cache entry accepted the call"
    return section(
        "recompilations",
        "Recompilations",
        _timelines(record, limits),
        parts,
        more,
        about=about,
        figures=figures.RECOMPILED,
        is_open=True,
    )


# --- calls and entries -------------------------------------------------------------------------


def timeline(record: Record, number: str) -> list[tuple[str, Call]]:
    """The calls of a code object in order, runs of hits as one: ``2-3``."""
    # Calls are numbered from 1. A row has several calls if the same entry was hit repeatedly.
    rows, first = [], 1
    for call in record.calls:
        if call.code == number:
            last = first + call.times - 1
            rows.append((str(first) if last == first else f"{first}-{last}", call))
            first = last + 1
    return rows


def outcome(call: Call, entry: CompiledFrame, compiled: CompiledFrame | None) -> str:
    """Outcome of an entry for a call: ``hit``, ``compiled``, ``failed`` (a guard of it), or "" if not checked."""
    if call.entry == entry.id:
        return "compiled" if call.compiled else "hit"
    # Reasons are known only for a call that compiled: it checked every entry.
    # A hit ends the search: the entries after it were not checked.
    has_failed = compiled is not None and any(each.compile_id == entry.id for each in compiled.failed_guards)
    return "failed" if has_failed else ""


_TONES = {"hit": "ok", "compiled": "info", "failed": "bad", "eager": "warn"}


MOST_CHANGES = 40
"""Maximum lines of the changes of one recompilation: in a model, nearly all lines of the graph differ."""

ROWS = 6
"""Number of rows above which a table is folded, so that many recompilations fit on one screen."""


def _timelines(record: Record, limits: Limits) -> Content:
    return [_timeline(record, group, limits) for group in links.entries(record) if len(group) > 1]


def _timeline(record: Record, group: tuple[CompiledFrame, ...], limits: Limits) -> Content:
    calls = timeline(record, group[0].id.partition("/")[0])
    if not calls:
        return None
    entries = [each for each in group if each.status == "compiled"]
    shown, more = limits.cut(calls)
    rows = [row(tag("th", number), *_cells(call, entries, group)) for number, call in shown]
    title = ("Calls of ", code(group[0].function), " and the entries that they found")
    grid = (table(title, ("call", *(each.id for each in entries), ""), rows, grid=True), more)
    return fold(("Calls of ", code(group[0].function), ", one by one"), grid) if len(rows) > ROWS else grid


def _cells(call: Call, entries: list[CompiledFrame], group: tuple[CompiledFrame, ...]) -> Iterator[Content]:
    entry_called = next((each for each in group if call.compiled and each.id == call.entry), None)
    for entry in entries:
        label = outcome(call, entry, entry_called)
        yield chip(label, _TONES[label]) if label else ""
    yield "" if call.entry else chip("eager", _TONES["eager"])


# --- one recompilation -------------------------------------------------------------------------


def _recompile(record: Record, frame: CompiledFrame, limits: Limits, *, is_open: bool) -> Markup:
    rows = []
    for failed in frame.failed_guards:
        failure = guard_failures.guard_failure(record, failed)
        condition = fold("the guard", code(failure.condition)) if failure.condition not in ("", failure.what) else None
        remedies = [tag("div", text, class_="n-quiet") for text in recompile_causes.remedies(failed)]
        expected = tag("td", code(failure.expected) if failure.expected else None, class_="n-expected")
        got = failure.actual or read(failure, frame)
        actual = tag("td", code(got) if got else None, class_="n-now")
        at = stack(failure.stack[-1:]) if failure.stack else None
        rows.append(row(tag("th", code(failure.entry)), (_what(failure), *remedies, condition), expected, actual, at))
    why = f" {_why(frame)}"
    title = (code(frame.id), " ", tag("b", frame.function), why)
    head = ("entry", "failed guard", "expected", "actual", "your line")
    return join((table(title, head, rows), _changed(record, frame, limits, is_open=is_open)))


def _cause(record: Record, cause: recompile_causes.Cause) -> Markup:
    """Recompilations for which one value is the cause, as one table."""
    failed = cause.frames[0].failed_guards[0]
    failure = guard_failures.guard_failure(record, failed)
    rows = [
        row(tag("th", code(frame.id)), code(_what(guard_failures.guard_failure(record, _newest(frame)))),
            "compiled" if frame.status == "compiled" else "ran eagerly")
        for frame in cause.frames
    ]  # fmt: skip
    title = (code(cause.about), f" differs: {facts.count(cause.recompiled, 'recompilation')} of ",
             tag("b", cause.frames[0].function))  # fmt: skip
    shown = [tag("p", text, class_="n-quiet") for text in recompile_causes.remedies_of(cause)]
    values = tag("p", title, ". The entries expect: ", code(facts.shortened(cause.values, ROWS)))
    head = ("entry", "guard of the newest older entry, which failed", "outcome")
    entries = fold("Entry by entry", table("The failed guard of each entry", head, rows), is_open=len(rows) <= ROWS)
    return join((values, stack(failure.stack[-1:]) if failure.stack else None, shown, entries))


def _newest(frame: CompiledFrame) -> FailedGuard:
    """Failed guard of the newest entry; failed guards are in the order in which entries were checked."""
    # As numbers: as text, ``0/10`` would be older than ``0/9``.
    order = {each.compile_id: int(each.compile_id.rpartition("/")[2]) for each in frame.failed_guards}
    return max(frame.failed_guards, key=lambda failed: order[failed.compile_id])


def _why(frame: CompiledFrame) -> str:
    if frame.status == "compiled":
        return "was compiled because a guard of each older entry failed"
    return f"was not compiled, though a guard of each entry failed: it {break_sentences.ended_by(frame, ())}"


def read(failure: guard_failures.GuardFailure, frame: CompiledFrame) -> str:
    """Sizes of a relation in the call whose guard failed."""
    found = {facts.readable(each.name): each.value for each in frame.readings}
    return ", ".join(f"{name} = {value}" for name, value in found.items() if "()" in name and name in failure.what)


def _what(failure: guard_failures.GuardFailure) -> str:
    return f"{failure.what}, dimension {failure.dimension}" if failure.dimension else failure.what


def _changed(record: Record, frame: CompiledFrame, limits: Limits, *, is_open: bool) -> Markup | None:
    """Guards that the new entry has and the one before it lacks, and the reverse."""
    before = previous(record, frame)
    found = changes(before, frame) if before is not None else []
    if before is None or not found:
        return None
    shown, more = limits.cut(found)
    looks = {"+": "n-ok", "-": "n-bad"}
    marked = [tag("span", line, "\n", class_=looks.get(line[:1])) for line in shown]
    program = tag("pre", tag("code", marked), class_="n-code")
    return fold(f"What changed from {before.id}", program, more, is_open=is_open and len(found) < 16)


def previous(record: Record, frame: CompiledFrame) -> CompiledFrame | None:
    """The entry of the same code object that was compiled before."""
    group = next(group for group in links.entries(record) if frame in group)
    older = [each for each in group[: group.index(frame)] if each.status == "compiled"]
    return older[-1] if older and frame.status == "compiled" else None


def changes(before: CompiledFrame, after: CompiledFrame) -> list[str]:
    """Guards that were removed and added, and the lines of the graph that differ."""
    # By condition: guards have no identity from one compilation to the next, only their text.
    guards = [*_missing("-", before, after), *_missing("+", after, before)]
    old, new = ([_without_notes(line) for line in _program(frame)] for frame in (before, after))
    # In addition to lines that differ (``- ``, ``+ ``) ndiff returns equal ones, and hints (``? ``) about letters.
    diff = [each for each in difflib.ndiff(old, new) if each[:2] in ("- ", "+ ") and each[2:].strip()]
    graph = [f"{each[0]} {each[2:].strip()}" for each in diff]
    return [*(["guards:", *guards] if guards else []), *(["graph:", *graph] if graph else [])]


def _missing(sign: str, frame: CompiledFrame, other: CompiledFrame) -> Iterator[str]:
    """Guards of one entry that the other lacks, in words where these differ."""
    conditions = {_unnumbered(guard.condition) for guard in other.guards}
    words = {guard.words for guard in other.guards}
    for guard in frame.guards:
        if _unnumbered(guard.condition) not in conditions:
            yield f"{sign} {guard.words if guard.words not in words else facts.readable(guard.condition)}"


def _unnumbered(condition: str) -> str:
    """A condition without the number that the compiler gives a global of its own: ``__builtins_dict___4``."""
    return re.sub(r"(__builtins_dict__)_*\d+", r"\1", condition)


def _program(frame: CompiledFrame) -> list[str]:
    return frame.graph.code.split("\n") if frame.graph is not None else []


def _without_notes(line: str) -> str:
    """A line of a graph without the comment that names its file."""
    return re.sub(r"^\s*# .*", "", line)


# --- as text -----------------------------------------------------------------------------------


def _call_rows(group: Sequence[CompiledFrame], calls: Sequence[tuple[str, Call]]) -> list[tuple[str, ...]]:
    """A row for each call: the checked entries, with their results."""
    entries = [frame for frame in group if frame.status == "compiled"]
    rows = [("call", *(frame.id for frame in entries), "")]
    for number, call in calls:
        entry_called = next((frame for frame in group if call.compiled and frame.id == call.entry), None)
        outcomes = (outcome(call, frame, entry_called) for frame in entries)
        rows.append((number, *outcomes, "" if call.entry else "eager"))
    return rows


def as_text(record: Record) -> Iterator[str]:
    """The calls, then each recompilation."""
    for group in links.entries(record):
        if len(group) > 1 and (calls := timeline(record, group[0].id.partition("/")[0])):
            yield from lines.columns(_call_rows(group, calls))
    for cause in recompile_causes.causes(record, [frame for frame in record.frames if frame.failed_guards]):
        if len(cause.frames) < facts.SEVERAL:
            for frame in cause.frames:
                yield from _as_text(record, frame)
            continue
        ids = ", ".join(f"[{frame.id}]" for frame in cause.frames)
        number = facts.count(cause.recompiled, "recompilation")
        yield from lines.wrapped(f"{cause.about} differs: {number} of {cause.frames[0].function}, {ids}", "", "    ")
        yield from lines.wrapped(f"the entries expect: {', '.join(cause.values)}", "  ", "      ")
        for text in recompile_causes.remedies_of(cause):
            yield from lines.wrapped(text, "  ", "      ")


def _as_text(record: Record, frame: CompiledFrame) -> Iterator[str]:
    yield from lines.wrapped(f"[{frame.id}] {frame.function} {_why(frame)}", "", "    ")
    for failed in frame.failed_guards:
        failure = guard_failures.guard_failure(record, failed)
        yield from lines.wrapped(f"[{failure.entry}] failed: {_what(failure)}", "  ", "      ")
        if failure.expected or failure.actual:
            yield f"      expected {failure.expected}, actual {failure.actual}"
        elif got := read(failure, frame):
            yield f"      actual {got}"
        if failure.condition:
            yield f"      guard: {failure.condition}"
        yield from (f"      {line}" for line in lines.stack(failure.stack))
        for text in recompile_causes.remedies(failed):
            yield from lines.wrapped(text, "      ", "        ")
    before = previous(record, frame)
    found = changes(before, frame) if before is not None else []
    # The two headings are lines of the list, so that the limit counts what is printed.
    for line in found[:MOST_CHANGES]:
        yield f"  changed {line}" if line.endswith(":") and line in ("guards:", "graph:") else f"    {line}"
    if len(found) > MOST_CHANGES:
        yield f"    ... and {len(found) - MOST_CHANGES} more lines"
