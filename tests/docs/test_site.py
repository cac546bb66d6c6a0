"""The documentation as it was built, page by page: ``make docs`` builds it and runs this over build/docs.

What a build accepts without a warning can still be wrong for a reader: a table that was no table, a hole of a template,
a link that leads nowhere, a page that is wider than its window.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup, NavigableString, Tag

SITE = Path(__file__).parents[2] / "build" / "docs"
pytestmark = [pytest.mark.site, pytest.mark.timeout(1800)]
NO_PROSE = ("pre", "code", "script", "style", "svg", "title", "kbd", "samp", "textarea")
WIDTHS = (1280, 390)


@functools.cache
def pages() -> tuple[Path, ...]:
    """Every page that a person reads."""
    made = [
        path for path in sorted(SITE.rglob("*.html")) if "_static" not in path.parts and "_modules" not in path.parts
    ]
    assert (SITE / "docs" / "index.html") in made, f"nothing is built in {SITE}: make docs"
    return tuple(made)


@functools.cache
def soup(path: Path) -> BeautifulSoup:
    """A page's elements."""
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def article(path: Path) -> Tag:
    """What is the page's own, without menus."""
    return soup(path).find("article") or soup(path).body or soup(path)


def prose(path: Path) -> list[str]:
    """The texts of a page that are neither code nor a drawing, each as it stands between two elements."""
    return [
        str(each)
        for each in article(path).find_all(string=True)
        if type(each) is NavigableString and each.strip() and not each.find_parents(NO_PROSE)
    ]


def name(path: Path) -> str:
    return str(path.relative_to(SITE))


def found_in_prose(pattern: str) -> list[str]:
    """Where a pattern is met that no reader should see."""
    return [
        f"{name(path)}: {found[0]!r} in {text.strip()[:80]!r}"
        for path in pages()
        for text in prose(path)
        for found in re.finditer(pattern, text, re.MULTILINE)
    ]


def test_no_row_of_a_table_is_left_as_text():
    """Neither a rule of dashes between pipes, nor a line that begins and ends with one."""
    wrong = found_in_prose(r"\|\s*:?-{2,}:?\s*(\||$)|^\s*\|.*\|.*\|\s*$")
    assert not wrong, "\n".join(wrong)


def test_no_hole_of_a_template_is_left():
    """What an example, or a build, fills in was filled in."""
    wrong = found_in_prose(r"[⟨⟩]|\{\{|\}\}|\{%|%\}|(?<![\w$])\{[a-z_]+\}")
    assert not wrong, "\n".join(wrong)


def test_no_object_of_the_compiler_is_shown_as_python_prints_it():
    """Inside of a sentence: a class and an address say nothing to a reader."""
    wrong = [
        f"{name(path)}: {each.get_text()[:120]}"
        for path in pages()
        for each in article(path).find_all("code")
        if not each.find_parent("pre") and re.search(r"<nbcompile\.| object at 0x", each.get_text())
    ]
    assert not wrong, "\n".join(wrong)


def test_every_directive_and_role_was_rendered():
    """Fences of MyST, directives and roles of Sphinx, and its messages about them, are for authors."""
    assert (
        found_in_prose(r"^\s*(:{3,}|`{3,})|\{[\w-]+\}`|^\.\. [\w-]+::|:(?:doc|ref|class|func|py:\w+):`|^:\w+: ") == []
    )
    wrong = [
        f"{name(path)}: {each.get_text()[:80]}"
        for path in pages()
        for each in article(path).select(
            ".system-message, .problematic, div.output.stderr, .cell:not(.tag_raises-exception) .traceback"
        )
    ]
    assert not wrong, "\n".join(wrong)


def test_no_table_is_empty():
    """A table has rows, and something in them."""
    wrong = []
    for path in pages():
        for table in article(path).find_all("table"):
            rows = [row for row in table.find_all("tr") if row.find("td")]
            said = "".join(cell.get_text() + "".join(map(str, cell.find_all("img"))) for cell in table.find_all("td"))
            if not rows or not said.strip():
                wrong.append(f"{name(path)}: {table.get_text(' ', strip=True)[:80]!r}")
    assert not wrong, "\n".join(wrong)


def test_every_link_leads_somewhere():
    """Pages, pictures, style sheets and scripts of the site itself; and the place in the page, where one is named."""
    ids = functools.cache(
        lambda path: {each[key] for each in soup(path).find_all(True) for key in ("id", "name") if each.has_attr(key)}
    )
    wrong = []
    for path in pages():
        for each in soup(path).find_all(["a", "img", "link", "script", "iframe"]):
            told = each.get("href") if each.name in ("a", "link") else each.get("src")
            if not told or urlsplit(told).scheme or told.startswith("//"):
                continue
            file, place = unquote(urlsplit(told).path), unquote(urlsplit(told).fragment)
            target = (path.parent / file).resolve() if file else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                wrong.append(f"{name(path)}: {told} is not there")
            elif place and target.suffix == ".html" and place not in ids(target):
                wrong.append(f"{name(path)}: {told} names no place")
    assert not wrong, "\n".join(sorted(set(wrong)))


def test_a_page_of_the_gallery_names_its_operators():
    """The title says which operators the program is about; its code or its graph has them."""
    cases = [path for path in pages() if path.parent.name == "cases"]
    assert len(cases) > 50
    wrong = []
    for path in cases:
        head, *code = article(path).find("h1"), *article(path).find_all("pre")
        text = "\n".join(each.get_text() for each in code)
        operators = [each.get_text() for each in head.find_all("code")]
        if not any(each in text for each in operators):
            wrong.append(f"{name(path)}: {head.get_text()!r}")
    assert not wrong, "\n".join(wrong)


def test_every_page_has_one_title_and_a_language():
    """Of its own, for search results and screen readers; ids stand once."""
    wrong = []
    for path in pages():
        if soup(path).find("meta", attrs={"http-equiv": "refresh"}) or path.name in ("search.html", "genindex.html"):
            continue
        ids = [each["id"] for each in article(path).find_all(id=True)]
        twice = sorted({each for each in ids if ids.count(each) > 1})
        heads = len(article(path).find_all("h1"))
        if heads != 1 or not soup(path).html.get("lang") or twice:
            wrong.append(f"{name(path)}: {heads} titles, ids that stand twice: {twice}")
    assert not wrong, "\n".join(wrong)


TOO_WIDE = """() => {
  const width = document.documentElement.clientWidth;
  const scrolls = node => {
    for (let each = node.parentElement; each && each !== document.body; each = each.parentElement) {
      const style = getComputedStyle(each);
      if (/auto|scroll|hidden|clip/.test(style.overflowX)) return each.getBoundingClientRect().right <= width + 1 || scrolls(each);
      if (style.position === "fixed") return true;
    }
    return false;
  };
  const wide = [...document.querySelectorAll("article *, article")].filter(each => {
    const box = each.getBoundingClientRect();
    return box.width > 0 && box.right > width + 1 && !each.closest("svg svg, [hidden]") && !scrolls(each);
  });
  const named = each => `${each.tagName.toLowerCase()}.${each.className?.baseVal ?? each.className} ` +
    `${Math.round(each.getBoundingClientRect().right)} px: ${(each.textContent || "").trim().slice(0, 60)}`;
  const sideways = document.documentElement.scrollWidth > width + 1;
  return [...wide.slice(-2).map(named), ...(sideways ? [`the page scrolls to ${document.documentElement.scrollWidth}`] : [])];
}"""
"""What of a page is beyond its right edge, and no pane around it scrolls or cuts it off."""


@pytest.mark.browser
def test_no_page_is_wider_than_its_window(chromium):
    """On a screen and on a phone: what is wide scrolls in a pane of its own; with every fold open."""
    page, wrong = chromium.new_page(), []
    page.route(lambda url: not url.startswith(("file:", "data:")), lambda route: route.abort())
    for path in pages():
        if soup(path).find("meta", attrs={"http-equiv": "refresh"}):
            continue
        page.goto(path.as_uri(), wait_until="domcontentloaded")
        for opened in (False, True):
            page.evaluate(
                'opened => document.querySelectorAll("article details").forEach(each => { each.open ||= opened; })',
                opened,
            )
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                said = "unfolded, " if opened else ""
                wrong += [f"{name(path)}, {said}{width} px: {each}" for each in page.evaluate(TOO_WIDE)]
    assert not wrong, "\n".join(wrong)
