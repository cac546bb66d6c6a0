"""Slides of a picture: one for each section, expanded, in large type.

    <div class=nbc> header, tree, breaks, frame(source, graph, residual)
        ->  header  |  tree  |  breaks  |  frame(source, graph)  |  frame(residual)

Source and graph are on one slide, since hovering over one highlights the other. A question of `--predict` has its
own slide, and its answer comes after all questions.

In torch: nothing. Read next: nbcompile/views/html.py, which makes the picture
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from bs4 import BeautifulSoup, Tag
from markupsafe import Markup
from nbformat import NotebookNode

from nbcompile.tools.page import prose
from nbcompile.views import assets

MAX_LINES = 17
"""Maximum number of lines of text and code on a slide of 1280 x 720 pixels."""
WIDTH = 78
"""Letters in a line of text on a slide."""
SIDE_BY_SIDE = ("source", "graph")
MAX_FOLLOWING_LINES = 6
"""Maximum number of lines of a part that may follow code on the same slide."""
TOO_LONG = 99
"""Lines of a part that has its own slide."""


@dataclass(frozen=True, slots=True)
class Slide:
    """Content of a slide, or of a part of one, and the lines that it takes."""

    content: Markup
    lines: int
    needs_code: bool = False
    """True if the content is a question about the code of its cell, which is shown above it."""

    @property
    def is_short(self) -> bool:
        """True if the content may follow other content on the same slide."""
        return self.lines <= MAX_FOLLOWING_LINES


def is_picture(output: NotebookNode) -> bool:
    """Return whether the output is a picture, an exercise or a verdict."""
    return not {"text/html", "text/markdown"}.isdisjoint(output.get("data", {}))


def split_output(output: NotebookNode) -> Iterator[Slide]:
    """The slides of an output."""
    data = output.data
    if "text/html" not in data:
        yield from split_text(data["text/markdown"])
        return
    body, _ = assets.without_assets(data["text/html"])
    soup = BeautifulSoup(body, "html.parser")
    picture = soup.select_one("div.nbc")
    if picture is None:
        yield Slide(Markup(body), MAX_FOLLOWING_LINES)
        return
    yield from _parts_of(picture)


def split_text(source: str) -> Iterator[Slide]:
    """Markdown as slides: each has as many blocks as fit."""
    kept: list[str] = []
    # Blank lines outside of code (an even number of fences follows them), and the ends of code.
    for block in re.split(r"\n\n(?=(?:[^`]*```[^`]*```)*[^`]*\Z)|(?<=\n```)\n", source.strip()):
        if kept and sum(map(lines_of, [*kept, block])) > MAX_LINES:
            yield _text(kept)
            kept = []
        kept.append(block)
    if kept:
        yield _text(kept)


def _text(blocks: list[str]) -> Slide:
    content, lines = prose("\n\n".join(blocks)), sum(map(lines_of, blocks))
    if lines > MAX_LINES:  # only code, since other blocks would have a slide of their own
        content = Markup(str(content).replace("<pre>", '<pre class="two-columns">'))
    return Slide(content, lines)


def lines_of(block: str) -> int:
    """The lines that a paragraph, a list or code takes on a slide."""
    return sum(1 + len(line) // WIDTH for line in block.splitlines() if line.strip()) + block.startswith(("#", "```"))


def _parts_of(box: Tag) -> Iterator[Slide]:
    """Slides of the children of a picture, or of a fold in it."""
    for child in box.find_all(True, recursive=False):
        if child.name == "header":
            if len(child.find_all(True, recursive=False)) > 1:  # more than the name of the function
                yield _slide(child, 4 + len(child.find_all("p", recursive=False)))
        elif "n-frame" in (child.get("class") or []):
            yield from _parts_of_frame(child)
        elif questions := child.select(".n-questions > li"):
            yield from (_question(each, number) for number, each in enumerate(questions, 1))
        elif child.name == "details" and not child.get("data-s"):
            yield from _parts_of(child)  # hidden answers, frames of libraries
        elif child.name == "details":
            yield from _parts_of_section(child)


def _parts_of_frame(frame: Tag) -> Iterator[Slide]:
    """A slide for each section, under the frame's title."""
    split = frame.select_one(".n-split")
    sections = split.find_all("details", recursive=False) if split else []
    pair = [section for section in sections if section.get("data-s") in SIDE_BY_SIDE]
    rest = [section for section in sections if section.get("data-s") not in SIDE_BY_SIDE]
    for group in ([pair] if pair else []) + [[section] for section in rest]:
        shown = copy.copy(frame)
        shown["open"] = ""
        for kept in shown.select(".n-split"):
            kept.clear()
            kept.extend([_unfolded(section) for section in group])
        yield _slide(shown)


def _parts_of_section(section: Tag) -> Iterator[Slide]:
    """The section; a slide for each break of several, and for the table of each recompilation."""
    kind, items = (
        section.get("data-s"),
        [each for each in section.find_all(True, recursive=False) if each.name != "summary"],
    )
    if kind == "breaks" and len(items) > 1:
        groups = [[item] for item in items]
    elif kind == "recompilations":
        groups = [list(group) for _, group in groupby(items, key=_TableNumber())]
    else:
        groups = [items]
    summary = section.find("summary", recursive=False)
    for group in groups:
        shown = _unfolded(section)
        shown.clear()
        shown.extend([copy.copy(part) for part in ([summary] if summary else []) + group])
        if kind == "recompilations":
            for fold in shown.select("details"):
                del fold["open"]  # the differences of programs: for the notebook
        yield _slide(shown)


class _TableNumber:
    """The number of the last table, for the parts after it."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, part: Tag) -> int:
        self.seen += part.name == "div" and "n-scroll" in (part.get("class") or [])
        return self.seen


def _question(item: Tag, number: int) -> Slide:
    listed = Markup('<ol class="n-questions" start="{}">{}</ol>').format(number, Markup(item))
    return Slide(_framed(listed), 4 + len(item.select("ol > li")), needs_code=True)


def _unfolded(section: Tag) -> Tag:
    shown = copy.copy(section)
    shown["open"] = ""
    return shown


def _slide(content: Tag, lines: int = TOO_LONG) -> Slide:
    return Slide(_framed(content), lines)


def _framed(content: object) -> Markup:
    return Markup(f'<div class="nbc">{content}</div>')
