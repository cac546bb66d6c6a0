"""Guards, grouped by the guarded value, and the symbols that they bound.

In torch: TORCH_LOGS=guards prints them. Read next: nbcompile/views/recompilations.py
"""

from __future__ import annotations

from markupsafe import Markup

from nbcompile.record import links
from nbcompile.record.model import CompiledFrame, Guard
from nbcompile.views import facts
from nbcompile.views.markup import Limits, chip, code, fold, row, section, table, tag


def render(frame: CompiledFrame, found: links.FrameLinks, limits: Limits) -> Markup | None:
    """Render the guards: the conditions under which the compiled code runs again."""
    if not frame.guards:
        return None
    # The state of the process is the last row: its guards are in every frame, and on no value.
    groups = dict(facts.guard_groups(frame))
    process = groups.pop(facts.PROCESS, ())
    marks = _marks(frame)
    listed = [(about, each) for about, group in groups.items() for each in group if each not in marks]
    shown, more = limits.cut(listed)
    # The name of a value is drawn once, at the first of its guards.
    firsts = {group[0].id: len(group) for _, group in facts.guard_groups(frame)}
    rows = [_row(about, each, each.id in firsts, found) for about, each in shown]
    if marks:
        rows.append(_unmarked(marks))
    if process:
        rows.append(_state(process))
    head = ("value", "what must hold", "as it is checked", "line")
    about = f"{len(frame.guards)}, all checked before each call"
    tables = [table("Guards by the value they are about", head, rows)]
    if symbols := facts.symbol_rows(frame):
        cards = [row(tag("th", code(name)), *cells) for name, *cells in symbols]
        tables.append(table("Sizes and numbers that vary", ("symbol", "read from", "value", "assumed"), cards))
    return section("guards", "Guards", tables, more, about=about, figures="guards")


MARKS = "DIMENSION_DYNAMIC_MARKING_GUARD"


def _marks(frame: CompiledFrame) -> tuple[Guard, ...]:
    """The guards on dynamic and static marks as one row, if several tensors have one: all are alike."""
    found = tuple(each for each in frame.guards if each.kind == MARKS)
    return found if len(found) > 1 else ()


# A module has hundreds of parameters, each of which may carry marks: rows that differ only in a name are one row.
def _unmarked(guards: tuple[Guard, ...]) -> Markup:
    """The guards on marks in one row."""
    names = facts.shortened(facts.readable(each.source) for each in guards)
    check = fold(
        facts.count(len(guards), "check"), code(guards[0].condition), "; the others ask the same of their tensors"
    )
    return row(tag("th", code(names)), ("carry no new dynamic or static mark ", chip(MARKS)), check, "")


def _checks(guards: tuple[Guard, ...]) -> Markup:
    return fold(facts.count(len(guards), "check"), [tag("div", code(each.condition)) for each in guards])


def _state(guards: tuple[Guard, ...]) -> Markup:
    """Summarise the guards on global state in one row."""
    words = "; ".join(dict.fromkeys(each.words or facts.readable(each.condition) for each in guards))
    return row(tag("th", tag("em", facts.PROCESS.strip("()"))), words, _checks(guards), "")


def _row(about: str, guard: Guard, first: bool, found: links.FrameLinks) -> Markup:
    line = links.own_line(found.frame, guard.stack)
    at = line or (facts.location(guard.stack[-1].file, guard.stack[-1].line) if guard.stack else "")
    value = tag("em", about.strip("()")) if about.startswith("(") else code(about)
    # Rows below the first of a group repeat the value for readers without styles; theme.css makes it pale.
    heading = tag("th", value, class_="" if first else "n-again")
    words = guard.words or facts.readable(guard.condition)
    kind = chip(guard.kind)
    return row(heading, (words, " ", kind), code(guard.condition), at)
