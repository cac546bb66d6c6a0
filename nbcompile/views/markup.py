"""HTML elements of the views.

    tag("td", "a < b", class_="n-x y", colspan=2)   <td class="n-x y" colspan=2>a &lt; b</td>

All content except Markup is escaped here and only here, so no view can forget it. Fragments have no ``id``: an output
may occur twice on one page. Links between elements are the words of ``data-n``, which are looked up inside one frame.

In torch: nothing. Read next: nbcompile/views/html.py
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from markupsafe import Markup, escape
from pygments.lexer import Lexer
from pygments.lexers import CppLexer, PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String, _TokenType

from nbcompile.support.context_variables import bound

Content = Any
"""Text (escaped), Markup, None (nothing), or an iterable of these."""
# Elements without content. In HTML they have no closing tag, in XML they end in a slash.
_EMPTY = frozenset({"img", "br", "rect", "path", "meta", "input"})
Item = TypeVar("Item")


def tag(name: str, /, *content: Content, **attributes: object) -> Markup:
    """One element. ``class_`` is class, ``data_n`` is data-n; None and False omit an attribute."""
    return _element(name, content, attributes, bare=True)


def xml_tag(name: str, /, *content: Content, **attributes: object) -> Markup:
    """XML element with single quotes, so that it fits in an attribute; an empty one is closed."""
    return _element(name, content, attributes, bare=False)


_NEEDS_NO_QUOTES = re.compile(r"[A-Za-z0-9_.-]+")


def _element(name: str, content: Content, attributes: dict[str, object], *, bare: bool) -> Markup:
    words = [name]
    for key, value in attributes.items():
        attribute = key.rstrip("_").replace("_", "-")
        if value is True:
            words.append(attribute)
        elif value is not None and value is not False and value != "":
            # HTML needs no quotes around simple words, and without them an output, which is saved
            # with its notebook, is smaller.
            plain, quote = bare and _NEEDS_NO_QUOTES.fullmatch(str(value)), '"' if bare else "'"
            words.append(f"{attribute}={value}" if plain else f"{attribute}={quote}{escape(value)}{quote}")
    opening = " ".join(words)
    if name in _EMPTY:
        return Markup(f"<{opening}>" if bare else f"<{opening}/>")
    return Markup(f"<{opening}>{join(content)}</{name}>")


def join(content: Content) -> Markup:
    """Concatenate content."""
    if content is None:
        return Markup()
    if isinstance(content, Markup):
        return content
    # A plain text comes from the user's program, and is escaped. Only Markup is not.
    if isinstance(content, (str, int, float)):
        return escaped(clipped(str(content)))
    # Sections are built of nested tuples, lists and generators, with None for omitted parts: here they become one text.
    return Markup().join(map(join, content))


def escaped(text: str) -> Markup:
    """Text between elements. Unlike in attributes, quotes are harmless here and stay short."""
    return Markup(text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))


# --- how much is shown -------------------------------------------------------------------------


@dataclass(frozen=True)
class Limits:
    """Limits of long content; omissions are always stated."""

    rows: int = 1_000_000
    frames: int = 1_000_000
    characters: int = 100_000_000
    """Characters of one line of any text."""
    repeated: bool = False
    """Entries of a function with the same graph, and kernels with the same program, are drawn once."""
    entries: int = 2
    """Entries with graphs of their own that are drawn of a function that was compiled for many values: 1 or 2."""
    without: tuple[str, ...] = ()
    """Sections that are omitted."""

    def cut(self, items: Sequence[Item]) -> tuple[Sequence[Item], Markup | None]:
        """Items to show and, if some are omitted, a line with their number."""
        hidden = len(items) - self.rows
        return items[: self.rows], tag(
            "p", f"… and {hidden} more: see the full report.", class_="n-more"
        ) if hidden > 0 else None


_longest: ContextVar[int] = ContextVar("longest", default=Limits.characters)


@contextmanager
def lines_of(characters: int) -> Iterator[None]:
    """Context in which each line of text is shortened, with a mark; data for scripts is not."""
    with bound(_longest, characters):
        yield


_is_plain: ContextVar[bool] = ContextVar("is_plain", default=False)


@contextmanager
def listings_without_colours(enabled: bool) -> Iterator[None]:
    """Context in which listings are not highlighted: most programs of an output are folded, and few are opened."""
    with bound(_is_plain, enabled):
        yield


def clipped(text: str) -> str:
    """The text with its lines shortened to the limit of the context."""
    most = _longest.get()
    if len(text) <= most:
        return text
    return "\n".join(line if len(line) <= most else line[:most] + " …" for line in text.split("\n"))


# --- pieces ------------------------------------------------------------------------------------


def section(
    name: str, title: str, *body: Content, about: Content = "", figures: str = "", is_open: bool = False
) -> Markup:
    """A foldable part with a title; ``figures`` is the provenance of the numbers in ``about`` (figures.py)."""
    heading = tag("summary", tag("b", title), " ", tag("small", about, data_r=figures) if about else None)
    return tag("details", heading, body, data_s=name, open=is_open)


def fold(title: Content, *body: Content, figures: str = "", is_open: bool = False) -> Markup:
    """A smaller foldable part, inside a section."""
    return tag("details", tag("summary", title, data_r=figures), body, open=is_open)


def chip(text: str, tone: str = "") -> Markup:
    """A word on a coloured background: ``ok``, ``warn``, ``bad`` or plain."""
    return tag("span", text, class_=f"n-chip n-{tone}" if tone else "n-chip")


def prose(text: str) -> Content:
    """Text in which `code` is between backticks, as in torch's messages."""
    return [code(part) if index % 2 else part for index, part in enumerate(text.split("`"))]


def code(text: str) -> Markup:
    """A short piece of code inside prose."""
    return tag("code", text)


def table(caption: Content, head: Sequence[str], rows: Iterable[Content], *, grid: bool = False) -> Markup:
    """A table with its header; ``rows`` are ``<tr>`` elements, which wrap on a narrow page unless it is a grid."""
    heads = [tag("th", each) for each in head]
    parts = (tag("caption", caption), tag("thead", tag("tr", heads)), tag("tbody", rows))
    return tag("div", tag("table", parts), class_="n-scroll n-grid" if grid else "n-scroll")


def row(*cells: Content, nodes: str = "", look: str = "") -> Markup:
    """A row of a table, linked to nodes; ``look`` is its class."""
    drawn = [each if _is_cell(each) else tag("td", _in_one_piece(each)) for each in cells]
    return tag("tr", drawn, class_=look, data_n=nodes)


_QUANTITY = re.compile(r"[\d.,]+ \S{1,2}")


def _in_one_piece(cell: Content) -> Content:
    """A number and its unit, ``393,216 B``, with a no-break space; any other cell is unchanged."""
    if isinstance(cell, str) and not isinstance(cell, Markup) and _QUANTITY.fullmatch(cell):
        return cell.replace(" ", "\N{NO-BREAK SPACE}")
    return cell


def _is_cell(content: Content) -> bool:
    return isinstance(content, Markup) and content.startswith(("<td", "<th"))


# --- highlighted code --------------------------------------------------------------------------

_CLASSES: tuple[tuple[_TokenType, str], ...] = (
    (Comment, "c"), (Keyword, "k"), (Operator.Word, "k"), (String, "s"), (Number, "m"),
    (Name.Function, "nf"), (Name.Builtin, "nb"), (Name.Decorator, "nd"),
)  # fmt: skip


def listing(
    text: str,
    language: str = "python",
    limits: Limits | None = None,
    nodes: Callable[[int], str] | None = None,
    looks: Callable[[int], str] | None = None,
) -> Markup:
    """Highlighted code; ``nodes(i)`` links line i (from 0), ``looks(i)`` is its class.

    A line with a link or a class is an element, so that it can be selected; adjacent lines that have the same link and
    the same class are one element.
    """
    shown_lines, more = (limits or Limits()).cut(text.rstrip("\n").split("\n"))
    lines = highlighted(clipped("\n".join(shown_lines)), "" if _is_plain.get() else language)
    marks = [(nodes(index) if nodes else "", looks(index) if looks else "") for index in range(len(lines))]
    shown = []
    #     line 3   n4   surrounds  ─┬─ one element: a brace and the lines around what it computes
    #     line 4   n4   surrounds  ─┘
    #     line 5   n4              ─── its own: it computes n4, and is selected by itself
    # A line that lacks one of the two has its own number as its key, and has a line of its own.
    for _, run in itertools.groupby(range(len(lines)), lambda index: marks[index] if all(marks[index]) else index):
        first, *rest = run
        linked, look = marks[first]
        text = join([(lines[index], "\n") for index in (first, *rest)])
        shown.append(tag("span", text, class_=look, data_n=linked) if linked or look else text)
    return join((tag("pre", tag("code", shown), class_="n-code"), more))


Cut = tuple[int, int, str, str]
"""A part of a line between two columns, the words that highlight it, and those that it selects."""


def highlighted(
    text: str, language: str = "python", cuts: Callable[[int], Sequence[Cut]] = lambda _: ()
) -> list[Markup]:
    """The lines of a program, with Pygments' short class names; few kinds, so output stays small.

    ``cuts(i)`` are the linked parts of line i (from 0), in order, without overlaps.
    """
    text = text.rstrip("\n")
    # A token may hold line breaks (a docstring): it is divided, so that each line is complete markup by itself.
    lines: list[list[tuple[str, str]]] = [[]]
    for name, value in _tokens(text, language):
        for index, part in enumerate(value.split("\n")):
            if index:
                lines.append([])
            if part:
                lines[-1].append((name if part.strip() else "", part))
    # The lexers append a newline to the text.
    return [_cut(parts, cuts(index)) for index, parts in enumerate(lines[: text.count("\n") + 1])]


def _cut(parts: list[tuple[str, str]], cuts: Sequence[Cut]) -> Markup:
    """A line, with an element around each of its linked pieces."""
    # A cut may be inside a token: the line is split into letters, each with its kind, and ``_line`` joins equal
    # neighbours.
    kinds = [(name, letter) for name, part in parts for letter in part]
    shown, done = [], 0
    for begin, end, lit, picked in cuts:
        shown.append(_line(kinds[done:begin]))
        shown.append(tag("span", _line(kinds[begin:end]), data_n=lit, data_p=picked if picked != lit else None))
        done = end
    return join((shown, _line(kinds[done:])))


def _line(parts: list[tuple[str, str]]) -> Markup:
    """Neighbours of one kind in one element."""
    runs = (
        (name, "".join(part for _, part in run)) for name, run in itertools.groupby(parts, key=lambda part: part[0])
    )
    return join(tag("span", part, class_=name) if name else part for name, part in runs)


def _tokens(text: str, language: str) -> Iterator[tuple[str, str]]:
    lexer = _lexer(language)
    if lexer is None:
        yield "", text
        return
    for kind, value in lexer.get_tokens(text):
        yield _class_of(kind), value


@functools.cache
def _class_of(kind: _TokenType) -> str:
    return next((name for parent, name in _CLASSES if kind in parent), "")


@functools.cache
def _lexer(language: str) -> Lexer | None:
    options = {"stripnl": False, "ensurenl": True}
    match language:
        case "python" | "triton":
            return PythonLexer(**options)
        case "cpp":
            return CppLexer(**options)
    return None
