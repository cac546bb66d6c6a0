"""Several records on one page: a single file that needs no network.

    page("Tour", [Section("A fused kernel", record, code="@compile ...", prose="...")])

Styles and script stand once, for all sections; nothing is shortened.

In torch: tlparse writes a directory. Read next: nbcompile/views/static/view.js
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from nbcompile.record.model import Record
from nbcompile.views import assets, html, sections
from nbcompile.views.markup import listing, tag


@dataclass(frozen=True, slots=True)
class Section:
    """One part of a page: words, the user's code, what it printed, its record. Each may be empty."""

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
    "nav ol{margin:0;padding-left:22px;columns:2 260px}a{color:light-dark(#2f54c0,#93b3ff)}"
    ".prose{max-width:72ch}"
    ".out{font:12.5px/1.5 ui-monospace,Menlo,Consolas,monospace;overflow:auto;white-space:pre-wrap}"
    "@media print{section{break-before:auto}}"
)


def page(title: str, sections: Iterable[Section]) -> str:
    """A whole HTML document."""
    parts = list(sections)
    # The page is a document of its own, so here, and only here, ids are safe.
    contents = [tag("li", tag("a", each.title, href=f"#s{index}")) for index, each in enumerate(parts)]
    navigation = tag("nav", tag("ol", contents), aria_label="Contents") if len(parts) > 1 else None
    head = (
        tag("meta", charset="utf-8"), tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title), assets.styles(), tag("style", _PAGE_STYLE),
    )  # fmt: skip
    body = (
        tag("h1", title),
        navigation,
        [_section(index, each) for index, each in enumerate(parts)],
        assets.script(*html.ALL_PROGRAMS),
    )
    return "<!doctype html>\n" + str(tag("html", tag("head", head), tag("body", tag("main", body)), lang="en")) + "\n"


def _section(index: int, section: Section) -> Markup:
    shown = section.show or tuple(sections.SECTIONS)
    paragraphs = [tag("p", each.strip()) for each in section.prose.split("\n\n") if each.strip()]
    return tag(
        "section", tag("h2", section.title), tag("div", paragraphs, class_="prose") if paragraphs else None,
        tag("div", listing(section.code), class_="nbc") if section.code else None,
        tag("pre", section.output, class_="out") if section.output else None,
        Markup(html.render(section.record, shown, assets=False, limit=None)) if section.record else None,
        id=f"s{index}",
    )  # fmt: skip


def of_record(record: Record) -> str:
    """The full report of one record."""
    return page(f"nbcompile: {record.function}", [Section(record.function, record)])
