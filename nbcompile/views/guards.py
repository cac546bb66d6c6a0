"""Guards, by the value they are about, and why older entries refused a call.

In torch: TORCH_LOGS=guards and TORCH_LOGS=recompiles print them.
Read next: nbcompile/views/breaks.py
"""

from __future__ import annotations

from markupsafe import Markup

from nbcompile.record import links
from nbcompile.record.model import CompiledFrame, Guard, Record
from nbcompile.views import facts
from nbcompile.views.breaks import stack
from nbcompile.views.markup import Limits, chip, code, join, row, section, table, tag


def render(frame: CompiledFrame, found: links.FrameLinks, limits: Limits) -> Markup | None:
    """What must hold for the compiled code to run again."""
    if not frame.guards:
        return None
    shown, more = limits.cut([(source, each) for source, group in facts.guard_groups(frame) for each in group])
    firsts = {group[0].id: len(group) for _, group in facts.guard_groups(frame)}
    rows = [_row(source, each, each.id in firsts, found) for source, each in shown]
    head = ("value", "what must hold", "as it is checked", "line")
    about = f"{len(frame.guards)}, all checked before each call"
    tables = [table("Guards by the value they are about", head, rows)]
    if symbols := facts.symbol_rows(frame):
        cards = [row(tag("th", code(name)), *cells) for name, *cells in symbols]
        tables.append(table("Sizes and numbers that vary", ("symbol", "read from", "value", "assumed"), cards))
    return section("guards", "Guards", tables, more, about=about)


def _row(source: str, guard: Guard, first: bool, found: links.FrameLinks) -> Markup:
    line = links.own_line(found.frame, guard.stack)
    at = line or (facts.place(guard.stack[-1].file, guard.stack[-1].line) if guard.stack else "")
    value = code(facts.readable(source)) if source else tag("em", "the process")
    # Rows below the first of a group repeat the value for readers without styles; theme.css quiets it.
    heading = tag("th", value, class_="" if first else "n-again")
    words = guard.words or facts.readable(guard.condition)
    kind = chip(guard.kind)
    return row(heading, (words, " ", kind), code(guard.condition), at)


def recompilations(record: Record, limits: Limits) -> Markup | None:
    """For each recompile, the guard by which each older entry refused."""
    again = [frame for frame in record.frames if frame.failed_guards]
    if not again:
        return None
    shown, more = limits.cut(again)
    parts = [_recompile(record, frame) for frame in shown]
    about = "a call came for which no compiled entry would do"
    return section("recompilations", "Recompilations", parts, more, about=f"{len(again)}: {about}", opened=True)


def _recompile(record: Record, frame: CompiledFrame) -> Markup:
    head = ("entry", "refused because of", "expected", "actual", "dim", "your line")
    rows = []
    for failed in frame.failed_guards:
        no = facts.refusal(record, failed)
        condition = tag("div", code(no.condition), class_="n-quiet") if no.condition else None
        at = stack(no.stack[-1:]) if no.stack else None
        expected = code(no.expected) if no.expected else None
        actual = tag("td", code(no.actual) if no.actual else None, class_="n-now")
        remedies = (tag("div", told, class_="n-quiet") for told in facts.remedies(failed))
        what = join((no.what, condition, *remedies))
        rows.append(row(tag("th", code(no.entry)), what, expected, actual, no.dimension, at))
    why = " was compiled because the older entries refused the call"
    title = (code(frame.id), " ", tag("b", frame.function), why)
    return table(title, head, rows)
