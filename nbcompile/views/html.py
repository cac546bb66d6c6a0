"""HTML of a record: one self-contained fragment.

    render(record)                  everything, the most important sections unfolded
    render(record, "guards")        one section
    render(record, ["graph"])       some

It is read in three steps, each complete without the next: plain elements
(``<details>``, tables, ``<pre>``, ``<img>``), which work in untrusted notebooks and without scripts; static/theme.css,
for light, dark, print and
forced colours; static/view.js, which links source lines, graph nodes and
kernel lines. Nothing is fetched and no element has an id, so a page may contain it any number of times.

In torch: tlparse makes pages of a whole run. Read next: the modules named in
the imports, in page order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from markupsafe import Markup, escape

from nbcompile.record import links
from nbcompile.record.model import CompiledFrame, Record
from nbcompile.views import (
    assets as files,
    break_sentences,
    breaks,
    bytecode,
    cell_summary,
    facts,
    figures,
    graph,
    guards,
    kernels,
    predict,
    recompilations,
    recompile_causes,
    sections,
    source,
    steps,
    timings,
    what_if,
)
from nbcompile.views.lines import encodable
from nbcompile.views.markup import (
    Content,
    Limits,
    chip,
    code,
    fold,
    join,
    lines_of,
    listings_without_colours,
    prose,
    tag,
)

HARD_LIMIT = 512_000
"""Bytes of one output. A notebook is saved with all of them, and again on each save."""
_DETAIL = (
    Limits(rows=2000, frames=200, repeated=True),
    Limits(rows=400, frames=40, characters=500, repeated=True),
    Limits(rows=80, frames=15, characters=200, repeated=True),
    Limits(rows=15, frames=5, characters=100, repeated=True),
)
"""Levels of detail, tried in order until the output fits. A table with more than 2000 rows never fits."""


def render(
    record: Record, show: str | Iterable[str] | None = None, *, assets: bool = True, limit: int | None = HARD_LIMIT
) -> str:
    """Render the chosen sections; without ``assets``, the surrounding page provides styles and script.

    If many sections are shown, most are folded, and their programs are not highlighted.

    With a ``limit`` in bytes, long parts are shortened, with a note, until the output fits.
    """
    selected = sections.chosen(show)
    if show is None and not what_if.by_default(record):
        selected = tuple(each for each in selected if each != "what_if")  # it doubles the size of a simple output
    is_storm = show is None and limit is not None and recompile_causes.is_storm(record)
    # The size of a page is known only when it is rendered, so it is rendered with less and less detail until it fits.
    for limits, most in _attempts(record, limit, is_storm=is_storm):
        parts = tuple(each for each in selected if each not in limits.without)
        with lines_of(limits.characters), listings_without_colours(limit is not None and len(selected) > FEW):
            page = _page(record, parts, _body(record, parts, limits), assets=assets)
        if most is None or len(page.encode()) <= most:
            return page
    # Thousands of frames: even the lowest level of detail is too large.
    note = tag("p", "This record is too large to show here: see the full report.", class_="n-callout")
    return _page(record, selected, join((_head(record, ("summary",), _DETAIL[-1]), note)), assets=assets)


def _page(record: Record, selected: tuple[str, ...], body: Markup, *, assets: bool) -> str:
    """The fragment. Its class marks it for older or newer scripts on the same page: each ignores the others'."""
    inside = tag("div", body, class_="nbc")
    if not assets:
        return encodable(str(inside))
    before, after = files.styles(*_styles(record, selected)), files.script(*_programs(record, selected))
    return encodable(str(join((before, inside, after))))


def _attempts(record: Record, limit: int | None, *, is_storm: bool) -> Iterator[tuple[Limits, int | None]]:
    """Limits to try in order, each with the bytes that the page may take: the first that fits is shown."""
    if limit is None:
        yield Limits(), None
        return
    if is_storm:
        # The last of them may be as large as any page, since no detail is left to omit.
        yield from ((each, STORM_LIMIT) for each in _STORM[:-1])
        yield _STORM[-1], limit
    yield from ((each, limit) for each in _DETAIL[_first_try(record) :])


STORM_LIMIT = 60_000
"""Bytes of the view of a function that was compiled for many values. It shows the reasons; the code of each entry is in
the full report, and in ``show("kernels")``."""
_DETAILS = ("residual", "bytecode", "aten", "timings")
_STORM = (
    _DETAIL[0],
    Limits(rows=2000, frames=200, repeated=True, entries=1),
    Limits(rows=400, frames=40, characters=500, repeated=True, entries=1, without=("what_if",)),
    Limits(rows=80, frames=40, characters=200, repeated=True, entries=1, without=("what_if", *_DETAILS)),
    Limits(rows=80, frames=40, characters=200, repeated=True, entries=1, without=("what_if", *_DETAILS, "kernels")),
    Limits(rows=15, frames=40, characters=100, repeated=True, entries=1, without=("what_if", *_DETAILS, "kernels")),
)
"""Levels of detail for such a function, tried in order before ``_DETAIL``."""
COMFORTABLE = 420_000
"""Bytes of a page that a browser draws without delay: a page that would be larger is first tried with less detail."""
_ROW = 200
"""Bytes of a row of a table or a line of a program, about."""


def _first_try(record: Record) -> int:
    """The first level of detail that is expected to fit, by the number of rows: a failed try takes a second."""
    sizes = [tuple(_sizes(frame)) for frame in record.frames]
    for index, limits in enumerate(_DETAIL[:-1]):
        rows = sum(min(size, limits.rows) for each in sizes[: limits.frames] for size in each)
        if rows * _ROW <= COMFORTABLE:
            return index
    return len(_DETAIL) - 1


def _sizes(frame: CompiledFrame) -> Iterator[int]:
    """Numbers of rows and lines of a frame's tables and programs."""
    yield from (len(frame.guards), len(frame.steps), len(frame.instructions), frame.residual.count("\n"))
    for drawn_graph in links.graphs(frame):
        # Pictures are not counted: a graph of any size is drawn with few boxes (boxes.py).
        yield from (len(drawn_graph.nodes), len(drawn_graph.nodes))  # the table, and the code
    if compiled := frame.compiled_graph:
        yield from (len(compiled.buffers), len(compiled.fusions), compiled.wrapper.count("\n"))
        yield sum(kernel.source.count("\n") // 2 for kernel in compiled.kernels)  # short lines


def _body(record: Record, selected: tuple[str, ...], limits: Limits) -> Markup:
    """Head and sections; predictions, if shown, hide all others."""
    if "predict" not in selected:
        return join((_head(record, selected, limits), _sections(record, selected, limits)))
    rest = tuple(each for each in selected if each != "predict")
    # Without the summary, whose numbers contain answers of some questions.
    with_questions = (_head(record, (), limits), predict.render(record, limits))
    if not rest:
        return join(with_questions)
    inside = (_head(record, rest, limits), _sections(record, rest, limits))
    return join((with_questions, fold(tag("b", "Reveal"), inside)))


def _head(record: Record, selected: tuple[str, ...], limits: Limits) -> Markup:
    title = tag("p", tag("b", "nbcompile"), " ", code(record.function), class_="n-title")
    if "summary" not in selected:
        return tag("header", title)
    shortened = limits in (*_DETAIL[1:], *_STORM[1:])
    return tag(
        "header",
        title,
        tag("ul", [_tile(each) for each in facts.tiles(record)], class_="n-tiles") if record.frames else None,
        [_sentence(each) for each in cell_summary.of(record)],
        tag("p", "Shortened to stay small: the full report has everything.", class_="n-callout") if shortened else None,
        tag("p", facts.environment(record), class_="n-quiet"),
    )


def _sentence(sentence: cell_summary.Sentence) -> Markup:
    """A sentence, and its line of the user's code."""
    shown = breaks.stack((sentence.location,)) if sentence.location is not None else None
    return join((tag("p", prose(sentence.text), data_r=sentence.reference), shown))


def _tile(tile: facts.Tile) -> Markup:
    noun = tile.noun if tile.number == 1 else f"{tile.noun}s"
    look = f"n-{tile.tone}" if tile.tone else None
    return tag("li", tag("b", tile.number), f" {noun}", class_=look, data_r=tile.reference)


def _sections(record: Record, selected: tuple[str, ...], limits: Limits) -> Markup:
    # Sections about the whole record come first, then the frames with their sections.
    whole = {
        "tree": breaks.tree, "breaks": breaks.render, "recompilations": recompilations.render,
        "what_if": what_if.render,
    }  # fmt: skip
    parts = [make(record, limits) for name, make in whole.items() if name in selected]
    if any(name in selected for name in sections.FRAME_SECTIONS):
        parts += _frames(record, selected, limits)
    return join(parts)


def _followers(
    frame: CompiledFrame,
    shown: Sequence[CompiledFrame],
    first_of: dict[str, str],
    render: Callable[[CompiledFrame, list[CompiledFrame]], Markup],
) -> Iterator[Markup]:
    """The list of the frames that are shown with this one, if there are any."""
    if followers := [other for other in shown if first_of.get(other.id) == frame.id]:
        yield render(frame, followers)


def _frames(record: Record, selected: tuple[str, ...], limits: Limits) -> Iterator[Markup]:
    """Frames with their sections; repetitions and further entries are listed with the first similar one."""
    #     like       drawn once: this entry has the graph of an earlier one
    #     further    named only: of many entries with graphs of their own the first (and the last) are drawn
    #     foreign    last, in one fold: a library's functions, in a record of the user's
    shown = record.frames[: limits.frames]
    same_graph = facts.repetitions(record) if limits.repeated else {}
    is_about_calls = limits.repeated and "recompilations" in selected and recompile_causes.is_storm(record)
    further = _further(record, same_graph, limits.entries) if is_about_calls else {}
    for index, frame in enumerate(shown):
        if frame.id in same_graph or frame.id in further or _is_foreign(frame, shown):
            continue
        yield _frame(record, frame, selected, limits, is_open=index == 0 and not is_about_calls)
        yield from _followers(frame, shown, same_graph, _repetitions)
        yield from _followers(frame, shown, further, _others)
    yield from _foreign(record, [frame for frame in shown if _is_foreign(frame, shown)], selected, limits)
    if hidden := len(record.frames) - len(shown):
        more = f"… and {facts.count(hidden, 'more frame')}: see the full report."
        yield tag("p", more, class_="n-more", data_r=f"frames|beyond.{len(shown)}")


def _is_foreign(frame: CompiledFrame, shown: Sequence[CompiledFrame]) -> bool:
    """Return whether it is a library's function, in a record of the user's functions."""
    return bool(facts.library(frame)) and not facts.library(shown[0])


def _foreign(
    record: Record, frames: list[CompiledFrame], selected: tuple[str, ...], limits: Limits
) -> Iterator[Markup]:
    """The frames of functions that the user did not write, which the user's functions call, in one fold."""
    if frames:
        names = facts.shortened(dict.fromkeys(map(facts.library, frames)))
        title = (tag("b", f"{facts.count(len(frames), 'frame')} of library functions"), " ", tag("small", names))
        yield fold(title, [_frame(record, each, selected, limits, is_open=False) for each in frames])


def _further(record: Record, same_graph: dict[str, str], entries: int) -> dict[str, str]:
    """Entries that are named instead of drawn: a map from the id of each to the id of the function's first entry.

    With ``entries`` 1 only the first is drawn; with 2 the first and the last, or all if there are fewer than
    SEVERAL_GRAPHS. ``like`` maps entries to others with the same graph.
    """
    found: dict[str, str] = {}
    for group in links.entries(record):
        compiled = [frame.id for frame in group if frame.status == "compiled"]
        own = [compile_id for compile_id in compiled if compile_id not in same_graph]
        if len(own) >= (SEVERAL_GRAPHS if entries > 1 else 2):
            shown = {own[0], own[-1]} if entries > 1 else {own[0]}
            # An entry with the same graph as a drawn entry is listed with that entry, and not here.
            hidden = [each for each in compiled if each not in shown and same_graph.get(each) not in shown]
            found |= dict.fromkeys(hidden, own[0])
    return found


SEVERAL_GRAPHS = 5
"""Number of a function's graphs from which on a summary of its recompilations shows only the first and the last."""


def _others(first: CompiledFrame, others: list[CompiledFrame]) -> Markup:
    """Summary that replaces entries with other graphs, of a function that was compiled for many calls."""
    sentence = (
        f" are further entries of {facts.name(first)} with other graphs: why each was compiled is shown above, the "
        "full report has all of each."
    )
    return tag("p", _listed(others), escape(sentence), class_="n-more")


def _listed(frames: list[CompiledFrame]) -> list[Content]:
    """The compile ids of frames, between commas, as many as a sentence holds."""
    ids = [code(each.id) for each in frames]
    shown = ids if len(ids) <= MANY else [*ids[: MANY - 1], ids[-1]]
    listed: list[Content] = [part for each in shown for part in (", ", each)][1:]
    if len(shown) < len(ids):
        listed[-2] = ", …, "
    return listed


def _repetitions(first: CompiledFrame, others: list[CompiledFrame]) -> Markup:
    """Summaries that replace entries which differ only in their guards, or frames skipped for one reason."""
    if first.status == "skipped":
        sentence = (
            f" are further calls of {facts.name(first)} that were skipped for the same reason: see the full report."
        )
    else:
        sentence = (
            f" are further entries of {facts.name(first)} with the same graph: what differs in their guards is shown "
            "above, the full report has all of each."
        )
    return tag("p", _listed(others), escape(sentence), class_="n-more")


MANY = 12
"""Number of compile ids in one sentence."""


def _unfolded(part: Markup) -> Markup:
    """A section in its unfolded state."""
    return Markup(re.sub(r"^(<details data-s=\w+)>", r"\1 open>", str(part)))


FEW = 5
"""Number of sections up to which they are unfolded."""
_STATUS = {"compiled": "ok", "skipped": "warn", "failed": "bad"}


def _frame(record: Record, frame: CompiledFrame, selected: tuple[str, ...], limits: Limits, *, is_open: bool) -> Markup:
    """Render one frame; on a wide page its graph is in its own column."""
    found = links.frame_links(frame)
    make = {
        "source": lambda: source.render(record, frame, found, limits),
        "steps": lambda: steps.render(frame, limits),
        "graph": lambda: graph.render(frame, found, limits),
        "guards": lambda: guards.render(frame, found, limits),
        "residual": lambda: source.residual(frame, limits),
        "bytecode": lambda: bytecode.render(frame, found, limits),
        "aten": lambda: graph.aten(frame, found, limits, drawn_captured="graph" in selected),
        "kernels": lambda: kernels.render(frame, found, limits),
        "timings": lambda: timings.render(record, frame),
    }
    # Lambdas, so that an omitted section is not built: a few of them take most of the time of a page.
    rendered = [make[name]() for name in selected if name in make]
    # A section that is requested by name is unfolded.
    if is_open and len(selected) <= FEW:
        rendered = [each and _unfolded(each) for each in rendered]
    status = chip(frame.status, _STATUS.get(frame.status, ""))
    end = break_sentences.ended_by(frame, links.distinct_breaks(record))
    name = tag("b", facts.name(frame))
    title = (
        code(frame.id),
        " ",
        name,
        tag("small", f" in {frame.function}, its decorator's") if frame.method else None,
        " ",
        status,
        " ",
        tag("small", f"{frame.cause}, {end}", data_r=figures.of_end(frame)),
        tag("small", f" · {library}")
        if (library := facts.library(frame)) and not links.is_generated(frame.file)
        else None,
    )
    body = tag("div", rendered, class_="n-split")
    return tag("details", tag("summary", title), body, class_="n-frame", data_f=frame.id, open=is_open)


ALL_PROGRAMS = ("graph", "trees", "what_if", "steps", "predict")
ALL_STYLES = ("calls", "breaks", "what_if", "steps", "predict", "failed", "gpu")


def _styles(record: Record, selected: tuple[str, ...]) -> tuple[str, ...]:
    """The parts of the style sheet that the sections need."""
    # The output contains the style of a section only if the section is in it.
    calls = ("calls",) if len(record.frames) > 1 else ()
    has_explanations = any(
        frame.breaks or frame.failed_guards or frame.resumes or frame.steps for frame in record.frames
    )
    broken = ("breaks",) if has_explanations or record.raised else ()
    failed = ("failed",) if record.raised or any(frame.unfinished for frame in record.frames) else ()
    simulated = ("gpu",) if "kernels" in selected and _is_simulated(record) else ()
    return (*calls, *broken, *failed, *simulated, *(each for each in _programs(record, selected) if each in ALL_STYLES))


def _is_simulated(record: Record) -> bool:
    return any(frame.compiled_graph and frame.compiled_graph.target for frame in record.frames)


def _programs(record: Record, selected: tuple[str, ...]) -> tuple[str, ...]:
    """The parts of the script that the sections need."""
    form = ("trees", "what_if") if "what_if" in selected and what_if.compiled_calls(record) else ()
    walk = ("steps",) if "steps" in selected and any(frame.steps for frame in record.frames) else ()
    with_questions = ("predict",) if "predict" in selected else ()
    shown = [
        drawn_graph for frame in record.frames for drawn_graph in links.graphs(frame)
        if ("graph" if drawn_graph is frame.graph else "aten") in selected
    ]  # fmt: skip
    # A small graph is an image without tools, and needs no script.
    drawn = ("graph",) if any(len(each.nodes) > graph.AT_A_GLANCE for each in shown) else ()
    return (*drawn, *form, *walk, *with_questions)
