"""Distinct graph breaks with causes and hints, and the tree of frames.

    B1  Attempted to call function marked as skipped        ended 0/0
        Explanation ... Hint ... Developer debug context ... your stack

    0/0 f  lines 1-3, ended by B1
      resumes 1/0  lines 3-5, carries y

One break inside nested calls ends a frame per level. It is one cause, so it is shown once, and the tree names it at
each frame that it ended.

In torch: torch/_guards.py and the graph-break registry hold the texts;
TORCH_LOGS=graph_breaks prints them. Read next: nbcompile/views/kernels.py
"""

from __future__ import annotations

from markupsafe import Markup

from nbcompile.record import links
from nbcompile.record.model import CompiledFrame, Record, ResumeFunction, StackLine
from nbcompile.views import annotated_source, break_sentences, facts, figures
from nbcompile.views.markup import Content, Limits, chip, code, fold, join, listing, prose, row, section, table, tag


def render(record: Record, limits: Limits) -> Markup | None:
    """The distinct breaks of a record."""
    distinct = links.distinct_breaks(record)
    if not distinct:
        return None
    # Numbered before the list is shortened: B3 is the same break in the tree, in the source and here.
    shown, more = limits.cut(list(enumerate(distinct)))
    parts = [_break(index, each) for index, each in shown]
    ended = sum(len(each.frames) for each in distinct)
    about = f"{len(distinct)} distinct, which ended {facts.count(ended, 'frame')}"
    counted = f"{figures.DISTINCT} {figures.ENDED}"
    return section("breaks", "Graph breaks", parts, more, about=about, figures=counted, is_open=True)


def _break(index: int, distinct: links.DistinctBreak) -> Markup:
    cause = distinct.cause
    label = chip(break_sentences.break_label(index), "warn")
    ended = tag("small", f"{break_sentences.break_ids(cause)} · ended ", facts.shortened(distinct.frames, 8))
    called = break_sentences.call_of(cause)
    title = (label, " ", tag("b", prose(cause.title)), " ", prose(called), " " if called else None, ended)
    hints = [tag("li", prose(hint)) for hint in cause.hints]
    why = (
        ("Explanation", prose(cause.explanation) if cause.explanation else None),
        ("Hint", tag("ul", hints) if hints else None),
        ("More", code(f"%compile_explain {cause.kind}") if cause.kind else None),
        ("While", cause.reason),
        ("Developer debug context", code(cause.context) if cause.context else None),
    )
    reasons = tag("dl", [(tag("dt", term), tag("dd", sentence)) for term, sentence in why if sentence])
    # With many breaks, the page would be longer than the program if all were unfolded.
    return fold(title, stack(cause.stack), reasons, is_open=index < 5)


def stack(lines: tuple[StackLine, ...]) -> Markup | None:
    """The user's stack, innermost last, with carets below the expression."""
    if not lines:
        return None
    shown: list[Content] = []
    for line in lines:
        shown.append(tag("small", f"{facts.location(line.file, line.line)}, in {line.function}\n"))
        if line.code:
            shown.append(f"  {line.code}\n")
            underline = annotated_source.carets(line)
            shown.append(tag("b", f"  {underline}\n") if underline else None)
    return tag("pre", tag("code", shown), class_="n-code n-stack", title=lines[-1].file)


# --- the tree ----------------------------------------------------------------------------------


def tree(record: Record, limits: Limits) -> Markup | None:
    """The frames as a tree: below each, the frames that its residual program called, in order."""
    if not facts.is_tree(record):
        return None
    distinct = links.distinct_breaks(record)
    roots, more = limits.cut(links.resume_tree(record))
    items = tag("ul", [_item(record, root, distinct, limits) for root in roots], class_="n-tree")
    # A break that ended one frame is shown at that frame; one that ended several is shown once, above the tree.
    causes = [_cause(record, index, each) for index, each in enumerate(distinct) if len(each.frames) > 1]
    about = f"{facts.count(len(record.frames), 'frame')}: who called whom, and where each goes on"
    return section("tree", "Resume tree", causes, items, more, about=about, figures="frames", is_open=True)


def _cause(record: Record, index: int, distinct: links.DistinctBreak) -> Markup:
    label, title = chip(break_sentences.break_label(index), "warn"), prose(distinct.cause.title)
    sentence = break_sentences.repeated(record, distinct)
    counted = f"frames.breaks|ended.{index}"
    return tag("p", label, " ", title, ": ", tag("span", prose(sentence), data_r=counted))


def _item(record: Record, node: links.TreeNode, distinct: tuple[links.DistinctBreak, ...], limits: Limits) -> Markup:
    frame = node.frame
    operators = links.operators(frame.graph)
    role = (chip(node.role, "info" if node.role == "resumes" else ""), " ") if node.role else None
    path = figures.of_frame(record, frame)
    about = tag("small", _about(record, frame, path))
    title = (code(frame.id), " ", role, tag("b", facts.name(frame)), " ", about, " ", _end(frame, distinct))
    size = f"its graph: {facts.count(len(operators), 'operator')}"
    graph = tag("p", size, data_r=f"{path}.graph.{figures.OPERATORS}")
    ended = tag("p", break_sentences.ended_by(frame, distinct), data_r=figures.of_end(frame, path))
    # The line of the frame's own function, not that of an inlined one: it is what the residual
    # program leaves to Python.
    broken_line = links.own_location(frame, frame.breaks[0].stack) if frame.breaks and frame.residual else None
    between = broken_line.code.strip() if broken_line else ""
    python = (
        listing(frame.residual, limits=limits) if frame.residual else None,
        tag("p", code(between), " runs eagerly.") if between else None,
    )
    resumes = _resumes(frame, path, limits)
    children, more = limits.cut(node.children)
    below = tag("ul", [_item(record, child, distinct, limits) for child in children]) if children else None
    return tag("li", fold(title, graph, python, ended, resumes, is_open=break_sentences.is_chain(frame)), below, more)


def _about(record: Record, frame: CompiledFrame, path: str) -> Content:
    """``lines 2-3 · sin, cos, add and 2 more``."""
    operators, lines = links.operators(frame.graph), facts.span(record, frame)
    names = facts.shortened((facts.short_target(each.target) for each in operators), 3)
    # "and 2 more" is a number on the page, and needs a provenance.
    beyond = f"{path}.graph.{figures.OPERATORS}|beyond.3" if len(operators) > 3 else ""
    return (
        tag("span", lines, data_r=f"{path}|lines") if lines else None,
        " · " if lines and names else None,
        tag("span", names, data_r=beyond) if beyond else names,
    )


def _end(frame: CompiledFrame, distinct: tuple[links.DistinctBreak, ...]) -> Markup:
    if frame.status != "compiled":
        return chip(frame.status, "bad" if frame.status == "failed" else "warn")
    if frame.breaks:
        return chip(break_sentences.break_label(links.cause_of(frame.breaks[0], distinct)), "warn")
    return chip("returns", "ok")


def _resumes(frame: CompiledFrame, path: str, limits: Limits) -> Content:
    """Resume functions of a frame; for a nested break the whole chain, each below its caller."""
    if not break_sentences.is_chain(frame):
        return [_resume(each, path, limits) for each in frame.resume_functions]
    sides = [_resume(each, path, limits) for each in frame.resume_functions if each.branch]
    chain: Content = tag("ul", [tag("li", side) for side in sides]) if sides else None
    #     f calls g calls h, and h breaks:      resume h   inside of   resume g   inside of   resume f
    # From the innermost outwards: each is put around those before it, which it calls.
    for function in frame.resume_functions[len(sides) :]:
        chain = tag("ul", tag("li", _resume(function, path, limits), chain))
    return chain


def _resume(resume: ResumeFunction, path: str, limits: Limits) -> Markup:
    rows = [row(tag("th", code(each.name)), each.kind, code(each.recipe)) for each in resume.carried]
    branch = f" ({resume.branch})" if resume.branch else ""
    carried = table("Live values carried over", ("value", "kind", "pushed by"), rows) if rows else None
    source = listing(resume.source, limits=limits) if resume.source else None
    line = tag("span", f"line {resume.line}", data_r=f"{path}.resume_functions[name={resume.name}].line")
    return join((tag("p", "goes on at ", line, " in ", code(resume.name), branch), carried, source))
