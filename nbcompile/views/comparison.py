"""View of a comparison with the real torch.compile: first the differences, then numbers, then both in two columns.

    print(view)               text
    view                      HTML in a notebook
    view.report("out.html")   one file
    view.data, view.to_json() the comparison as data

In torch: nothing. Read next: nbcompile/record/comparison.py
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from nbcompile.record import links
from nbcompile.record.comparison import EQUAL, Comparison, Difference, Fact, FramePair, LineMarks
from nbcompile.record.model import CompiledFrame, Graph, Kernel, Record
from nbcompile.views import assets, facts, html
from nbcompile.views.lines import encodable
from nbcompile.views.markup import Limits, chip, code, fold, join, listing, row, section, table, tag
from nbcompile.views.report import Section, page

NAMES = ("nbcompile", "torch.compile")
SHOWN = Limits(rows=400, frames=40)
WIDEST = 46
"""Characters of a source line in the text form."""


@dataclass(frozen=True)
class ComparisonView:
    """A comparison with its displays in notebooks and terminals."""

    data: Comparison

    def __str__(self) -> str:
        return "\n".join(text_lines(self.data))

    __repr__ = __str__

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        del include, exclude
        return {"text/plain": str(self), "text/html": render(self.data)}

    def to_json(self, indent: int | None = None) -> str:
        """Everything as JSON."""
        return self.data.to_json(indent)

    def report(self, path: str | Path) -> Path:
        """Write one HTML file: the comparison, and both records whole."""
        Path(path).write_text(document(self.data), encoding="utf-8")
        return Path(path)


def verdict(data: Comparison) -> str:
    """The comparison in one sentence."""
    if not data.ours.frames and not data.theirs.frames:
        return "Neither compiler compiled anything."
    unknown = [each for each in data.differences if not each.known]
    if not data.differences:
        return "The same frames, graph breaks, graphs, recompilations and conditions of guards."
    known = len(data.differences) - len(unknown)
    if not unknown:
        return f"{facts.count(known, 'difference')}, for known reasons."
    return f"{facts.count(len(unknown), 'difference')} without a known reason, {known} for known reasons."


def in_order(data: Comparison) -> list[Difference]:
    """The differences: those without a known reason first."""
    return sorted(data.differences, key=lambda found: bool(found.known))


def value(fact: Fact, number: float | None) -> str:
    """A number with its unit."""
    if number is None:
        return "unknown"
    shown = f"{number:,.3g}" if isinstance(number, float) and number < 1000 else f"{number:,.0f}"
    return f"{shown} {fact.unit}".strip()


# --- text -------------------------------------------------------------------------------------------------------------


def text_lines(data: Comparison) -> Iterator[str]:
    """The comparison as text."""
    yield f"{data.title}: nbcompile beside torch.compile"
    yield verdict(data)
    for found in in_order(data):
        yield f"  {found.aspect}, {found.place}"
        yield from (f"    {name + ':':<15}{text}" for name, text in zip(NAMES, (found.ours, found.theirs), strict=True))
        if found.known:
            yield f"    known: {found.known}"
    yield ""
    yield f"{'':<32}{NAMES[0]:>18}{NAMES[1]:>18}"
    for fact in data.facts:
        yield f"{fact.name:<32}{value(fact, fact.ours):>18}{value(fact, fact.theirs):>18}"
    for pair in data.frames:
        yield f"\n{pair.function} ({pair.ours or 'not compiled'}; {pair.theirs or 'not compiled'})"
        for line in pair.lines:
            marks = " | ".join(_words(each) for each in (line.ours, line.theirs))
            yield f"{line.line:>5} {line.text[:WIDEST]:<{WIDEST}} {marks if marks != ' | ' else ''}".rstrip()
        yield from _guard_lines(pair)
    # Last: notes are about the comparison itself, such as a graph that could not be read.
    yield from (f"note: {note}" for note in data.notes)


def _guard_lines(pair: FramePair) -> Iterator[str]:
    """Number of conditions by status; those that differ are listed."""
    for status, group in itertools.groupby(pair.guards, key=lambda guard: guard.status):
        listed = list(group)
        yield f"      {facts.count(len(listed), 'condition')} of guards: {status}"
        if status != EQUAL:
            yield from (f"        {guard.ours or guard.theirs}" for guard in listed)


def _words(marks: LineMarks) -> str:
    parts = [", ".join(facts.short_target(each) for each in marks.operators)]
    parts += [f"BREAK: {each}" for each in marks.breaks]
    return "; ".join(filter(None, parts))


# --- HTML -------------------------------------------------------------------------------------------------------------


def document(data: Comparison) -> str:
    """One HTML document with the comparison and both records."""
    records = [
        Section(name, record) for name, record in zip(NAMES, (data.ours, data.theirs), strict=True) if record.frames
    ]
    whole = page(f"{data.title}: nbcompile beside torch.compile", records)
    # The comparison goes below the title of a page that is otherwise the report of both records.
    return whole.replace("</h1>", "</h1>" + str(_body(data)), 1)


def render(data: Comparison) -> str:
    """An HTML fragment."""
    return encodable(str(join((assets.styles(*html.ALL_STYLES), _body(data)))))


def _body(data: Comparison) -> Markup:
    frames = [_frame(data, pair) for pair in data.frames[: SHOWN.frames]]
    hidden = len(data.frames) - len(frames)
    return tag(
        "div",
        tag("header", tag("p", tag("b", data.title), " nbcompile beside torch.compile", class_="n-title"),
            tag("p", verdict(data))),
        _differences(in_order(data)),
        _facts(data.facts),
        frames,
        tag("p", f"… and {facts.count(hidden, 'more frame')}.", class_="n-more") if hidden > 0 else None,
        [tag("p", note, class_="n-quiet") for note in data.notes],
        class_="nbc",
    )  # fmt: skip


def _differences(differences: Sequence[Difference]) -> Markup | None:
    if not differences:
        return None
    shown, more = SHOWN.cut(differences)
    rows = [
        row(tag("th", chip(found.aspect, "" if found.known else "warn")), code(found.place), found.ours, found.theirs,
            found.known)
        for found in shown
    ]  # fmt: skip
    drawn = table("What differs", ("aspect", "where", *NAMES, "known reason"), rows, grid=True)
    unknown = sum(not each.known for each in differences)
    return section("differences", "Differences", drawn, more, about=f"{unknown} unknown", is_open=bool(unknown))


def _facts(found: Sequence[Fact]) -> Markup:
    rows = [
        row(tag("th", fact.name), value(fact, fact.ours), value(fact, fact.theirs),
            "" if fact.is_time or fact.ours == fact.theirs else chip("differs"))
        for fact in found
    ]  # fmt: skip
    return section("facts", "Numbers", table("Both compilers", ("", *NAMES, ""), rows, grid=True), is_open=True)


def _frame(data: Comparison, pair: FramePair) -> Markup:
    ours, theirs = _of(data.ours, pair.ours), _of(data.theirs, pair.theirs)
    title = tag(
        "summary", tag("b", pair.function), " ", tag("small", f"{pair.ours or '–'} beside {pair.theirs or '–'}")
    )
    parts = (_lines(pair), _guards(pair), *_graphs(ours, theirs), _kernels(ours, theirs))
    return tag("details", title, tag("div", parts), class_="n-frame", open=pair == data.frames[0])


def _of(record: Record, identity: str) -> CompiledFrame | None:
    return next((frame for frame in record.frames if identity and frame.id == identity), None)


def _lines(pair: FramePair) -> Markup | None:
    if not pair.lines:
        return None
    shown, more = SHOWN.cut(pair.lines)
    rows = [
        row(tag("td", str(line.line), class_="n-quiet"), tag("td", tag("pre", tag("code", line.text))),
            _marks(line.ours), _marks(line.theirs))
        for line in shown
    ]  # fmt: skip
    drawn = table("What each line became", ("line", "source", *NAMES), rows, grid=True)
    return section("lines", "Source", drawn, more, about=facts.location(pair.file, pair.first_line), is_open=True)


def _marks(marks: LineMarks) -> Markup:
    operators = ", ".join(facts.short_target(each) for each in marks.operators)
    breaks = [chip(f"graph break: {each}", "warn") for each in marks.breaks]
    checked = tag("small", f" {facts.count(marks.guards, 'guard')}") if marks.guards else None
    return join((code(operators) if operators else None, breaks, checked))


def _guards(pair: FramePair) -> Markup | None:
    if not pair.guards:
        return None
    # Conditions that are equal on both sides are only counted.
    unequal = [guard for guard in pair.guards if guard.status != EQUAL]
    rows = [
        row(tag("th", chip(guard.status, "" if guard.known or guard.status == EQUAL else "warn")),
            code(guard.ours) if guard.ours else "", code(guard.theirs) if guard.theirs else "", guard.known)
        for guard in pair.guards[: SHOWN.rows]
    ]  # fmt: skip
    about = f"{len(pair.guards) - len(unequal)} conditions equal, {len(unequal)} not"
    drawn = table("Conditions of guards, matched one to one", ("", *NAMES, "known reason"), rows, grid=True)
    return section("guard_pairs", "Guards", drawn, SHOWN.cut(pair.guards)[1], about=about)


def _graphs(ours: CompiledFrame | None, theirs: CompiledFrame | None) -> Iterator[Markup]:
    sides = [{facts.stage(graph): graph for graph in links.graphs(frame)} if frame else {} for frame in (ours, theirs)]
    # A dict keeps the order of insertion: our stages in order, then those that only torch.compile has.
    for stage in dict.fromkeys((*sides[0], *sides[1])):
        graphs = [side.get(stage) for side in sides]
        counts = ", ".join(f"{len(links.operators(graph))} operators" for graph in graphs)
        programs = _pair([_program(graph) for graph in graphs])
        yield section(f"graph_{stage.replace(' ', '_')}", f"Graph: {stage}", programs, about=counts)


def _program(graph: Graph | None) -> Markup:
    if graph is None:
        return tag("p", "no such graph", class_="n-quiet")
    return listing(facts.with_short_locations(graph.code), limits=SHOWN)


def _kernels(ours: CompiledFrame | None, theirs: CompiledFrame | None) -> Markup | None:
    sides = [_generated(frame) for frame in (ours, theirs)]
    if not any(sides):
        return None
    # In the order of launch. The two may fuse differently, so a row of the page only pairs positions.
    pairs = [_pair([_kernel(kernel) for kernel in both]) for both in itertools.zip_longest(*sides)]
    wrappers = [frame.compiled_graph.wrapper if frame and frame.compiled_graph else "" for frame in (ours, theirs)]
    calls = fold("Wrappers", _pair([listing(text, limits=SHOWN) if text else None for text in wrappers]))
    about = ", ".join(facts.count(len(side), "kernel") for side in sides)
    return section("kernel_pairs", "Kernels", pairs, calls, about=about)


def _generated(frame: CompiledFrame | None) -> list[Kernel]:
    compiled = frame.compiled_graph if frame else None
    return [kernel for kernel in compiled.kernels if kernel.source] if compiled else []


def _kernel(kernel: Kernel | None) -> Markup:
    if kernel is None:
        return tag("p", "no further kernel", class_="n-quiet")
    return join((tag("p", code(kernel.name)), listing(kernel.source, kernel.language, SHOWN)))


def _pair(both: Sequence[Markup | None]) -> Markup:
    columns = [tag("div", tag("small", name), part) for name, part in zip(NAMES, both, strict=True)]
    return tag("div", columns, class_="n-pair")
