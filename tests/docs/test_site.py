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

from nbcompile.sphinx_ext.course_table import rows

SITE = Path(__file__).parents[2] / "build" / "docs"
pytestmark = [pytest.mark.site, pytest.mark.timeout(1800)]
NO_PROSE = ("pre", "code", "script", "style", "svg", "title", "kbd", "samp", "textarea")
WIDTHS = (1280, 390)


@functools.cache
def pages() -> tuple[Path, ...]:
    """Each page for readers."""
    made = [
        path for path in sorted(SITE.rglob("*.html")) if "_static" not in path.parts and "_modules" not in path.parts
    ]
    assert (SITE / "docs" / "index.html") in made, f"nothing is built in {SITE}: make docs"
    return tuple(made)


@functools.cache
def soup(path: Path) -> BeautifulSoup:
    """The elements of a page."""
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def article(path: Path) -> Tag:
    """The content of a page, without menus."""
    return soup(path).find("article") or soup(path).body or soup(path)


def prose(path: Path) -> list[str]:
    """The texts of a page outside of code and drawings, one for each element."""
    return [
        str(each)
        for each in article(path).find_all(string=True)
        if type(each) is NavigableString and each.strip() and not each.find_parents(NO_PROSE)
    ]


def name(path: Path) -> str:
    return str(path.relative_to(SITE))


def found_in_prose(pattern: str) -> list[str]:
    """The positions at which a pattern is in prose."""
    return [
        f"{name(path)}: {found[0]!r} in {text.strip()[:80]!r}"
        for path in pages()
        for text in prose(path)
        for found in re.finditer(pattern, text, re.MULTILINE)
    ]


def test_no_row_of_a_table_is_left_as_text():
    """No prose has a rule of dashes between pipes, or a line between pipes."""
    wrong = found_in_prose(r"\|\s*:?-{2,}:?\s*(\||$)|^\s*\|.*\|.*\|\s*$")
    assert not wrong, "\n".join(wrong)


def test_no_hole_of_a_template_is_left():
    """Each field of an example or a template is filled in."""
    wrong = found_in_prose(r"[⟨⟩]|\{\{|\}\}|\{%|%\}|(?<![\w$])\{[a-z_]+\}")
    assert not wrong, "\n".join(wrong)


def test_no_object_of_the_compiler_is_shown_as_python_prints_it():
    """No sentence has the repr of an object, with a class and an address."""
    wrong = [
        f"{name(path)}: {each.get_text()[:120]}"
        for path in pages()
        for each in article(path).find_all("code")
        if not each.find_parent("pre") and re.search(r"<nbcompile\.| object at 0x", each.get_text())
    ]
    assert not wrong, "\n".join(wrong)


def test_every_directive_and_role_was_rendered():
    """No page shows MyST fences, Sphinx directives and roles, or Sphinx's messages."""
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
    """Each table has rows with content."""
    wrong = []
    for path in pages():
        for table in article(path).find_all("table"):
            rows = [row for row in table.find_all("tr") if row.find("td")]
            said = "".join(cell.get_text() + "".join(map(str, cell.find_all("img"))) for cell in table.find_all("td"))
            if not rows or not said.strip():
                wrong.append(f"{name(path)}: {table.get_text(' ', strip=True)[:80]!r}")
    assert not wrong, "\n".join(wrong)


def test_every_link_leads_somewhere():
    """Each link to a page, picture, style sheet or script of the site, with its anchor, exists."""
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
    """The title of a gallery page names operators of its code or graph."""
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
    """Each page has a unique title and a language, for search results and screen readers; ids are unique."""
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
    """No page is wider than a screen or a phone with every fold open: wide content scrolls in a pane."""
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


WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
FEW = ("cases", "graph_breaks", "design")
"""Folders of pages that are alike: every tenth of them is looked at."""


STILL = "*, *::before, *::after { animation: none !important; transition: none !important; }"
"""A fold fades in when it is opened: colours are those at its end."""


@pytest.mark.browser
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_axe_finds_nothing(chromium, every):
    """axe finds no violation of WCAG 2.2 AA, wide and light, narrow and dark, with every fold open, offline."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe-core comes with axe-playwright-python"
    ).Axe()
    alike = [path for path in pages() if path.parent.name in FEW]
    chosen = [*(path for path in pages() if path not in alike), *alike[::10]][::every]
    wrong = []
    for theme, width in (("light", 1280), ("dark", 390)):
        page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
        page.route(lambda url: not url.startswith(("file:", "data:")), lambda route: route.abort())
        for path in chosen:
            if soup(path).find("meta", attrs={"http-equiv": "refresh"}):
                continue
            page.goto(path.as_uri(), wait_until="load")
            page.add_style_tag(content=STILL)
            page.evaluate(
                "theme => { document.documentElement.dataset.theme = theme;"
                "document.querySelectorAll('article details').forEach(each => { each.open = true; }); }",
                theme,
            )
            found = axe.run(page, options={"runOnly": {"type": "tag", "values": WCAG}}).response
            assert found["passes"], f"axe looked at nothing in {name(path)}"
            wrong += [
                f"{name(path)}, {theme}: {each['id']}: {each['nodes'][0]['target']} {each['nodes'][0]['failureSummary']}"
                for each in found["violations"]
            ]
        page.close()
    assert not wrong, "\n".join(wrong)


def test_every_picture_has_a_text():
    """An image has an alternative text, a drawing has a name, and each graph is also a table."""
    wrong = []
    for path in pages():
        for image in article(path).find_all("img"):
            if not image.get("alt", "").strip():
                wrong.append(f"{name(path)}: {str(image)[:120]}")
        for drawing in article(path).find_all("svg"):
            named = drawing.get("aria-label") or drawing.find("title") or drawing.get("aria-hidden") == "true"
            if not named and not drawing.find_parent(attrs={"aria-hidden": "true"}):
                wrong.append(f"{name(path)}: {str(drawing)[:120]}")
        for graph in article(path).select('.nbc [data-s="graph"]'):
            if graph.find("img") and not graph.find("table"):
                wrong.append(f"{name(path)}: a graph without a table")
    assert not wrong, "\n".join(wrong)


@pytest.mark.browser
def test_search_finds_pages_without_a_network(chromium):
    """The search index is a file of the site: words of a page find it from a local disk."""
    page = chromium.new_page()
    page.route(lambda url: not url.startswith(("file:", "data:")), lambda route: route.abort())
    for word, wanted in (
        ("recompilation", "recompilation"),
        ("residual program", "core_concepts"),
        ("fusion", "5_loops"),
    ):
        page.goto(f"{(SITE / 'search.html').as_uri()}?q={word}")
        page.wait_for_selector("#search-results li a", timeout=20_000)
        page.wait_for_function(
            "/finished|found/i.test(document.querySelector('#search-results').textContent)", timeout=20_000
        )
        found = page.eval_on_selector_all("#search-results li a", "links => links.map(each => each.href)")
        assert any(wanted in link for link in found), (word, found[:20])


@pytest.mark.browser
@pytest.mark.parametrize(("width", "height", "theme"), [(1280, 720, "light"), (1280, 720, "dark"), (390, 844, "light")])
def test_the_front_page_begins_with_a_live_picture(chromium, width, height, theme):
    """The first screen has the source and graph of a compiled function; a click on an operator marks its line."""
    page = chromium.new_page(viewport={"width": width, "height": height}, color_scheme=theme)
    page.route(lambda url: not url.startswith(("file:", "data:")), lambda route: route.abort())
    page.goto((SITE / "docs" / "index.html").as_uri())
    page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
    for section in ("source", "graph"):
        box = page.locator(f".nbc [data-s={section}]").first.bounding_box()
        assert box and box["y"] + 100 < height, (section, box)
    page.locator(".nbc [data-s=graph] svg [data-n]").nth(1).click()
    assert page.locator(".nbc [data-s=source] .n-on").count() > 0


@pytest.mark.browser
def test_every_page_of_the_book_asks_a_question_that_keys_answer(chromium):
    """Offline and without a kernel, Tab reaches the choices, Enter presses one, and the answer and score appear."""
    page = chromium.new_page()
    page.route(lambda url: not url.startswith(("file:", "data:")), lambda route: route.abort())
    for row in rows():
        page.goto((SITE / row.page).with_suffix(".html").as_uri())
        question = page.locator(".n-questions > li").first
        assert question.locator("ol > li").count() >= 2, row.page
        right = int(question.get_attribute("data-a"))
        button = question.locator("ol > li button").nth(right)
        button.focus()
        page.keyboard.press("Enter")
        assert question.locator("details").first.evaluate("each => each.open"), row.page
        assert page.locator(".nbc [role=status]", has_text="Right. 1 right of 1").count() == 1, row.page
