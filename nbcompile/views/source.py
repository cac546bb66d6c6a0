"""The user's function, each line with its notes, and the residual program.

    2   y = torch.sin(x) * scale     sin, mul   in kernel0   3 guards
    3   torch.save(y, "foo.pt")      graph break: ...
    4   z = y @ w                    matmul in 1/0

In torch: nothing; a reader of TORCH_LOGS combines these.
Read next: nbcompile/views/guards.py
"""

from __future__ import annotations

import itertools

from markupsafe import Markup

from nbcompile.record import links
from nbcompile.record.model import CompiledFrame, Record
from nbcompile.views import annotated_source, facts, user_errors
from nbcompile.views.graph import words
from nbcompile.views.markup import Cut, Limits, chip, code, fold, highlighted, join, listing, row, section, table, tag

_INFO = "n-note n-info"
_LOOKS = {
    "operators": "n-note n-op", "break": "n-note n-warn", "error": "n-note n-bad", "fallback": _INFO,
    "mutation": _INFO, "inlined": _INFO, "resume": _INFO,
}  # fmt: skip


def render(record: Record, frame: CompiledFrame, found: links.FrameLinks, limits: Limits) -> Markup:
    """The annotated source of a frame."""
    lines = user_errors.marked(record, frame, annotated_source.source_lines(record, frame, found))
    where = facts.location(frame.file, frame.first_line)
    if not lines:
        return section(
            "source", "Source", tag("p", "The source of this function is not known."), about=where, is_open=True
        )
    # Highlighted whole and then divided into lines: a lexer needs what came before (a docstring, a bracket).
    pieces = highlighted(frame.source, cuts=lambda index: _cuts(found.spans.get(frame.first_line + index, ())))
    shown, more = limits.cut(list(zip(lines, pieces, strict=True)))
    drawn = tag("pre", tag("code", [_line(line, text) for line, text in shown]), class_="n-code n-src")
    return section(
        "source", "Source", drawn, more, _inlined(frame, limits), about=where, figures="first_line", is_open=True
    )


def _cuts(spans: tuple[links.Span, ...]) -> list[Cut]:
    """Non-overlapping pieces of a line: each highlights all operators around it, and selects the innermost."""
    # The line is divided at all edges, so that each piece has one set of spans around it:
    #      y = sin(x * 2) + 1
    #          -------------- add
    #          ---------- sin
    #              ----- mul
    #          |   |    ||   |      four pieces; the second highlights mul, sin and add
    edges = sorted({edge for span in spans for edge in (span.begin, span.end)})
    cuts = []
    for begin, end in itertools.pairwise(edges):
        around = [span for span in spans if span.begin <= begin and end <= span.end]
        if around:
            innermost = min(around, key=lambda span: span.end - span.begin)
            lit = words(tuple(node for span in around for node in span.nodes))
            cuts.append((begin, end, lit, words(innermost.nodes)))
    return cuts


def _line(line: annotated_source.SourceLine, text: Markup) -> Markup:
    # Without styles this reads "  3  code   # note; note": one line of text in any reader.
    notes = [
        tag("span", note.text, class_=_LOOKS.get(note.kind, "n-note"), data_r=note.reference) for note in line.notes
    ]
    tail = tag("em", Markup("  # "), Markup("; ").join(notes)) if notes else None
    below = tag("b", " " * 4 + line.carets, "\n") if line.carets else None
    kinds = {note.kind for note in line.notes}
    state = "n-broken" if kinds & {"break", "error"} else "n-past" if line.elsewhere else ""
    number = tag("i", f"{line.number:>3} ")
    return tag("span", number, tag("span", text), tail, "\n", below, class_=state, data_n=words(line.nodes))


def _inlined(frame: CompiledFrame, limits: Limits) -> Markup | None:
    if not frame.inlined:
        return None
    names, more = limits.cut(facts.inlined(frame))
    items = [tag("li", code(each)) for each in names]
    return fold(facts.count(len(frame.inlined), "call") + " traced into", tag("ul", items), more, figures="inlined")


def residual(frame: CompiledFrame, limits: Limits) -> Markup | None:
    """Render the residual program, and the side effects that it replays."""
    if not frame.residual:
        return None
    rows = [
        row(tag("th", code(annotated_source.replayed(frame, mutation)[0])), chip(mutation.kind), code(mutation.code))
        for mutation in frame.mutations
    ]
    effects = table("Side effects that it replays", ("object", "kind", "statement"), rows) if rows else None
    return section(
        "residual", "Residual program", join((listing(frame.residual, limits=limits), effects)),
        about="what runs instead of the function",
    )  # fmt: skip
