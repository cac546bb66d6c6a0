"""Report of several records: one self-contained HTML file.

    page("Tour", [Section("A fused kernel", record, code="@compile ...", prose="...")])

Styles and script are included once, for all sections; nothing is shortened. Frames and sections have addresses:
``out.html#s0-0.1-guards``, and with the script ``out.html#s0-0.1~n3`` for a node.

In torch: tlparse writes a directory. Read next: nbcompile/views/static/view.js
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from nbcompile.record.model import Record
from nbcompile.views import assets, html, sections
from nbcompile.views.markup import listing, tag


@dataclass(frozen=True, slots=True)
class Section:
    """One part of a page: prose, the user's code, its output, its record. Each may be empty."""

    title: str
    record: Record | None = None
    prose: str = ""
    """Plain text; blank lines separate paragraphs."""
    code: str = ""
    output: str = ""
    show: str | tuple[str, ...] | None = None


_PAGE_STYLE = Markup(
    ":root{color-scheme:light dark}"
    "body{margin:0 auto;padding:24px 16px 80px;max-width:1180px;background:light-dark(#fff,#15181e);"
    "color:light-dark(#1c2330,#e4e8ef);font:15px/1.6 system-ui,-apple-system,'Segoe UI','Liberation Sans',sans-serif}"
    "h1{font-size:26px;letter-spacing:-.02em;margin:0 0 12px}h2{font-size:19px;letter-spacing:-.01em;margin:44px 0 8px}"
    "nav ol{margin:0;padding-left:22px;columns:2 260px}nav li{break-inside:avoid}nav a{overflow-wrap:anywhere}"
    "a{color:light-dark(#2f54c0,#93b3ff)}"
    ".prose{max-width:72ch}"
    ".out{font:12.5px/1.5 ui-monospace,Menlo,Consolas,monospace;overflow:auto;white-space:pre-wrap}"
    "@media print{section{break-before:auto}}"
)


def page(title: str, sections: Iterable[Section]) -> str:
    """A whole HTML document."""
    parts = list(sections)
    # The page is a document of its own, so here, and only here, ids are safe.
    contents = [_contents(index, each) for index, each in enumerate(parts)]
    # A page with a single section needs no table of contents.
    links = sum(max(len(each.record.frames), 1) if each.record else 1 for each in parts)
    navigation = tag("nav", tag("ol", contents), aria_label="Contents") if links > 1 else None
    head = (
        tag("meta", charset="utf-8"), tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title), assets.styles(*html.ALL_STYLES), tag("style", _PAGE_STYLE),
    )  # fmt: skip
    body = (
        tag("h1", title),
        navigation,
        [_section(index, each) for index, each in enumerate(parts)],
        assets.script(*html.ALL_PROGRAMS, "addresses"),
    )
    return "<!doctype html>\n" + str(tag("html", tag("head", head), tag("body", tag("main", body)), lang="en")) + "\n"


def _contents(index: int, section: Section) -> Markup:
    """A line of the contents, with the frames of the record below."""
    frames = section.record.frames if section.record else ()
    below = [tag("a", f"{each.id} {each.function}", href=f"#{anchor(index, each.id)}") for each in frames[:_LISTED]]
    inner = tag("small", " ", Markup(" · ").join(below)) if below else None
    return tag("li", tag("a", section.title, href=f"#s{index}"), inner)


_LISTED = 60
"""Frames of a record in the contents."""


def anchor(index: int, *path: str) -> str:
    """The id of a frame, or of one of its sections: ``s0-0.1-guards``."""
    return "-".join((f"s{index}", *(re.sub(r"[^\w.]", ".", each) for each in path)))


def _with_anchors(fragment: str, index: int) -> Markup:
    """Add ids to frames and sections. User text is escaped, so it contains no such element."""
    frame: tuple[str, ...] = ()
    given: set[str] = set()

    def add(found: re.Match[str]) -> str:
        nonlocal frame
        if found["frame"]:
            frame = (found["frame"],)
        name = anchor(index, *frame, *filter(None, (found["section"],)))
        while name in given:  # calls after the recompilation limit share a name: 0/-
            name += "+"
        given.add(name)
        return f'{found[0]} id="{name}"'

    # Quotes are optional in the markup (markup.py omits them around simple words).
    value = r'"?(?P<{}>[^" >]*)"?'
    return Markup(
        re.sub(f"<details[^>]*? data-(?:f={value.format('frame')}|s={value.format('section')})", add, fragment)
    )


def _section(index: int, section: Section) -> Markup:
    shown = section.show or sections.USUAL
    paragraphs = [tag("p", each.strip()) for each in section.prose.split("\n\n") if each.strip()]
    return tag(
        "section", tag("h2", section.title), tag("div", paragraphs, class_="prose") if paragraphs else None,
        tag("div", listing(section.code), class_="nbc") if section.code else None,
        tag("pre", section.output, class_="out") if section.output else None,
        _with_anchors(html.render(section.record, shown, assets=False, limit=None), index) if section.record else None,
        id=f"s{index}",
    )  # fmt: skip


def of_record(record: Record) -> str:
    """The full report of one record."""
    return page(f"nbcompile: {record.function}", [Section(record.function, record)])
