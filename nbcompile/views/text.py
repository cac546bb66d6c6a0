"""Plain text of a record, without anything that varies between runs.

    nbcompile: f
    1 graph, 4 operators, 0 graph breaks, 0 recompiles, 5 guards, 1 kernel

    [0/0] f  cell_3.py:1  compiled (first call), ran to its return
      source
        2     y = torch.sin(x) * scale      # sin, mul; 3 guards

Terminals, LaTeX, e-mail and diffs see this form, so equal records give equal
text: no colour, no time (unless ``timings`` is requested), prose below 80 columns.

In torch: torch/_logging prints such pieces one by one. Read next:
nbcompile/views/html.py, the same facts as a page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from nbcompile.record import links
from nbcompile.record.model import CompiledFrame, Graph, Kernel, Record
from nbcompile.views import (
    annotated_source,
    break_sentences,
    bytecode,
    cell_summary,
    facts,
    gpu,
    kernels,
    lines,
    memory,
    parts,
    passes,
    predict,
    recompilations,
    sections,
    steps,
    timings,
    user_errors,
    what_if,
)

SHORTENED = (60, 25, 10, 4)
"""Numbers of lines per block, tried in order until the text is within its limit."""


MOST_PRINTED = 100_000
"""Characters that a command prints where no section is chosen: some 1,500 lines."""
IN_NOTEBOOKS = (
    "\nShortened: long parts of this text are left out. %%compile -o r binds the whole record to r:\n"
    'r.report("out.html") writes all of it, r.show("guards") shows one section.\n'
)
IN_COMMANDS = (
    "\nShortened: long parts of this text are left out. `--html out.html` writes all of it (a page), `--json` too\n"
    "(`open` has `-o out.html` and `--json`); `open ... --show guards` prints one section whole.\n"
)


def render(
    record: Record, show: str | Iterable[str] | None = None, limit: int | None = None, shortened: str = IN_NOTEBOOKS
) -> str:
    """The chosen sections as text; None: all but times and bytecode, and ``what_if`` after a recompilation.

    With a ``limit`` in characters long blocks are cut until the text fits, and the sentence ``shortened`` follows.
    """
    pages = _pages(record, show)
    whole = _joined(pages, None)
    if limit is None or len(whole) <= limit:
        return whole
    shown = next((text for most in SHORTENED if len(text := _joined(pages, most)) <= limit - len(shortened)), "")
    if not shown:
        # With thousands of frames even the shortest blocks are too long: the text then ends after a complete line.
        shown = text[: limit - len(shortened)].rpartition("\n")[0] + "\n"
    return shown + shortened


@dataclass(frozen=True, slots=True)
class _Page:
    """The sections about the whole record, or about one frame, each with a name and its lines."""

    title: tuple[str, ...]
    sections: tuple[tuple[str, tuple[str, ...]], ...]


def _pages(record: Record, show: str | Iterable[str] | None) -> list[_Page]:
    """All lines of the chosen sections, not shortened."""
    usual = {"timings": False, "bytecode": False, "what_if": what_if.by_default(record)}
    selected = [each for each in sections.chosen(show) if show is not None or usual.get(each, True)]
    about = (
        (name if name != "summary" else "", _RECORD_SECTIONS[name]) for name in selected if name in _RECORD_SECTIONS
    )
    pages = [_Page((), tuple((name, tuple(make(record))) for name, make in about))]
    distinct = links.distinct_breaks(record)
    for frame in record.frames:
        rendered = ((name, tuple(_FRAME_SECTIONS[name](record, frame))) for name in selected if name in _FRAME_SECTIONS)
        if shown := tuple((name, body) for name, body in rendered if body):
            pages.append(_Page(tuple(_frame_title(frame, distinct)), shown))
    return pages


def _joined(pages: list[_Page], most: int | None) -> str:
    """The text of all pages, with a maximum number of lines of each section."""
    parts: list[str] = []
    for page in pages:
        shown = [line for name, body in page.sections for line in _block(name, body, most)]
        parts += ["", *page.title, *(f"  {line}" if line else "" for line in shown)] if page.title else shown
    return lines.encodable("\n".join(line.rstrip() for line in parts).strip("\n") + "\n")


def _block(title: str, body: tuple[str, ...], most: int | None) -> list[str]:
    lines = list(body)
    if most is not None and title and len(lines) > most:
        lines = [*lines[:most], f"... and {len(lines) - most} more lines"]
    if not lines or not title:
        return lines
    return ["", title, *(f"  {line}" for line in lines)]


def _frame_title(frame: CompiledFrame, distinct: tuple[links.DistinctBreak, ...]) -> list[str]:
    wrapper = f", in its decorator's {frame.function}" if frame.method else ""
    title = f"[{frame.id}] {facts.name(frame)}{wrapper}  {facts.location(frame.file, frame.first_line)}"
    return [
        title,
        *lines.wrapped(f"{frame.status} ({frame.cause}), {break_sentences.ended_by(frame, distinct)}", "  ", "  "),
    ]


# --- about the whole record --------------------------------------------------------------------


def _summary(record: Record) -> Iterator[str]:
    yield f"nbcompile: {record.function}"
    yield ", ".join(facts.count(each.number, each.noun) for each in facts.tiles(record))
    for sentence in cell_summary.of(record):
        line = sentence.text.replace("`", "")
        yield from lines.wrapped(line, rest="    ") if len(line) > lines.WIDTH else [line]
        if sentence.location is not None:
            yield from (f"    {line}" for line in list(lines.stack((sentence.location,)))[1:])
    yield facts.environment(record)


def _tree(record: Record) -> Iterator[str]:
    if not facts.is_tree(record):
        return
    distinct = links.distinct_breaks(record)
    for index, distinct_break in enumerate(distinct):
        if len(distinct_break.frames) > 1:
            yield from lines.wrapped(
                f"{break_sentences.break_label(index)}: {break_sentences.repeated(record, distinct_break)}".replace(
                    "`", ""
                ),
                "",
                "    ",
            )
    for root in links.resume_tree(record):
        yield from _tree_lines(record, root, "", distinct)


def _tree_lines(
    record: Record, node: links.TreeNode, indent: str, distinct: tuple[links.DistinctBreak, ...]
) -> Iterator[str]:
    frame = node.frame
    role = f"{node.role} " if node.role else ""
    about = ", ".join(
        filter(None, (facts.span(record, frame), facts.count(len(links.operators(frame.graph)), "operator")))
    )
    yield f"{indent}{role}[{frame.id}] {facts.name(frame)} ({about})"
    yield from lines.wrapped(break_sentences.ended_by(frame, distinct), f"{indent}    ", f"{indent}      ")
    carried = _handed_on(frame) if break_sentences.is_chain(frame) else _carried(frame)
    yield from (f"{indent}    {line}" for line in carried)
    for child in node.children:
        yield from _tree_lines(record, child, indent + "  ", distinct)


def _handed_on(frame: CompiledFrame) -> Iterator[str]:
    """The resume functions of a break in a nested call, outermost first, with what each is given."""
    for resume in reversed(frame.resume_functions):
        yield f"goes on in {resume.name} (line {resume.line}){', which is given' if resume.carried else ''}"
        yield from (f"  {value.name} = {value.recipe} ({value.kind})" for value in resume.carried)


def _carried(frame: CompiledFrame) -> Iterator[str]:
    """The live values that are passed to the resume function, each once, even if both sides of a branch take them."""
    given: dict[str, list[str]] = {}
    for resume in frame.resume_functions:
        for value in resume.carried:
            given.setdefault(f"carries {value.name} = {value.recipe} ({value.kind})", []).append(resume.branch)
    for line, branches in given.items():
        yield line if len(branches) == len(frame.resume_functions) else f"{line}, {' and '.join(branches)}"


def _breaks(record: Record) -> Iterator[str]:
    for index, distinct in enumerate(links.distinct_breaks(record)):
        cause = distinct.cause
        if index:
            yield ""
        ids = f"  [{known}]" if (known := break_sentences.break_ids(cause)) else ""
        yield from lines.wrapped(f"{break_sentences.break_label(index)}  {cause.title}{ids}", "", "    ")
        if called := break_sentences.call_of(cause):
            yield from lines.wrapped(called.replace("`", ""), "  ", "    ")
        if cause.reason:
            yield from lines.wrapped(f"({cause.reason})", "  ", "  ")
        yield from lines.wrapped(
            f"ended {facts.count(len(distinct.frames), 'frame')}: {', '.join(distinct.frames)}", "  ", "  "
        )
        if cause.explanation:  # traces before torch 2.7 have none
            yield from lines.wrapped(f"Explanation: {cause.explanation}", "  ", "    ")
        for hint in cause.hints:
            yield from lines.wrapped(f"Hint: {hint}", "  ", "    ")
        if cause.context:
            yield from lines.wrapped(f"Developer debug context: {cause.context}", "  ", "    ")
        if cause.stack:
            yield "  from user code:"
            yield from (f"    {line}" for line in lines.stack(cause.stack))


# --- about one frame ---------------------------------------------------------------------------


def _source(record: Record, frame: CompiledFrame) -> Iterator[str]:
    lines = user_errors.marked(record, frame, annotated_source.source_lines(record, frame, links.frame_links(frame)))
    width = min(max((len(each.code) for each in lines), default=0), 48)
    for line in lines:
        note = "; ".join(note.text for note in line.notes)
        yield f"{line.number:>4}  {line.code:<{width}}  # {note}" if note else f"{line.number:>4}  {line.code}"
        if line.carets:
            yield f"      {line.carets}"
    if not lines:
        yield "(the source of this function is not known)"
    for name in facts.inlined(frame):
        yield f"inlined {name}"


def _steps(_: Record, frame: CompiledFrame) -> Iterator[str]:
    yield from steps.as_text(frame)


def _graph(_: Record, frame: CompiledFrame) -> Iterator[str]:
    graph = links.traced(frame)
    if graph is None:
        yield facts.without_graph(frame)
        return
    if graph is frame.unfinished:
        yield from lines.wrapped(facts.unfinished(frame).replace("`", ""), "", "")
    yield from _nodes(graph)
    yield from ("", *graph.code.rstrip("\n").split("\n"))


def _nodes(graph: Graph) -> Iterator[str]:
    rows = [("node", "target", "arguments", "type")]
    rows += [(node.name, node.target, node.arguments, facts.type_of(node)) for node in graph.nodes]
    yield from lines.columns(rows)


def _guards(_: Record, frame: CompiledFrame) -> Iterator[str]:
    for about, guards in facts.guard_groups(frame):
        yield about
        for guard in guards:
            at = f"  ({facts.location(guard.stack[-1].file, guard.stack[-1].line)})" if guard.stack else ""
            yield from lines.wrapped(f"{guard.kind}: {guard.words or guard.condition}{at}", "  ", "    ")
            if guard.words:
                yield f"    {guard.condition}"
    for name, where, known, assumed in facts.symbol_rows(frame):
        yield from lines.wrapped(f"symbol {name} = {where}: {known}", "", "    ")
        yield from lines.wrapped(f"assumed: {assumed}", "  ", "    ") if assumed else ()


def _residual(_: Record, frame: CompiledFrame) -> Iterator[str]:
    if frame.residual:
        yield from frame.residual.rstrip("\n").split("\n")


def _bytecode(_: Record, frame: CompiledFrame) -> Iterator[str]:
    yield from bytecode.as_text(frame)


def _aten(_: Record, frame: CompiledFrame) -> Iterator[str]:
    for graph in frame.compiled_graph.graphs if frame.compiled_graph else ():
        yield f"{facts.stage(graph)} ({facts.count(len(links.operators(graph)), 'operator')})"
        yield from (f"  {line}" for line in graph.code.rstrip("\n").split("\n"))
    yield from passes.as_text(frame)


def _kernels(_record: Record, frame: CompiledFrame) -> Iterator[str]:
    compiled = frame.compiled_graph
    if compiled is None:
        return
    yield ", ".join(filter(None, (f"backend {compiled.backend}", gpu.sentence(compiled))))
    for note in compiled.notes:
        yield from lines.wrapped(f"note: {note}", "", "  ")
    for line in parts.as_text(frame):
        yield from lines.wrapped(line, "", "    ")
    for buffer in compiled.buffers:
        yield f"{buffer.name}: {buffer.kind} {buffer.dtype}[{', '.join(buffer.shape)}]"
        yield from (f"  {line}" for line in buffer.body.rstrip("\n").split("\n"))
    for decision in compiled.fusions:
        saved = facts.bytes_saved(decision)
        verdict = ("fused" if decision.fused else "not fused") + (f", saves {saved}" if saved else "")
        yield from lines.wrapped(f"{decision.first} + {decision.second}: {verdict}, {decision.reason}", "", "  ")
    yield from memory.as_text(compiled)
    for _, kernel in kernels.in_order(compiled):
        yield from _kernel(kernel)
    if compiled.wrapper:
        yield "wrapper"
        yield from (f"  {line}" for line in compiled.wrapper.rstrip("\n").split("\n"))


def _kernel(kernel: Kernel) -> Iterator[str]:
    yield f"{kernel.name} ({kernel.language}{': ' + kernel.reason if kernel.reason else ''})"
    for line in gpu.text(kernel):
        yield from lines.wrapped(line, "  ", "    ")
    if kernel.source:
        yield from (f"  {line}" for line in kernel.source.rstrip("\n").split("\n"))


def _timings(record: Record, frame: CompiledFrame) -> Iterator[str]:
    yield from timings.as_text(record, frame)


_RECORD_SECTIONS: dict[str, Callable[[Record], Iterator[str]]] = {
    "predict": predict.as_text, "summary": _summary, "tree": _tree, "breaks": _breaks,
    "recompilations": recompilations.as_text, "what_if": what_if.as_text,
}  # fmt: skip
_FRAME_SECTIONS: dict[str, Callable[[Record, CompiledFrame], Iterator[str]]] = {
    "source": _source, "steps": _steps, "graph": _graph, "guards": _guards, "residual": _residual,
    "bytecode": _bytecode, "aten": _aten, "kernels": _kernels, "timings": _timings,
}  # fmt: skip
