"""nbcompile/tools/slides.py: a notebook as a deck that loads nothing; ``make slides`` runs the last tests over build/slides."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from nbcompile.tools.slides import columns, deck, main
from nbcompile.views import html, sections
from tests.tools.test_page import A4, CUT_OFF
from tests.views import sample_records as sample

BUILT = Path(__file__).parents[2] / "build" / "slides"


def picture(record, *shown):
    page = html.render(record, shown or sections.USUAL)
    return new_output("display_data", data={"text/html": page, "text/plain": "picture"})


def notebook():
    claim = new_output("display_data", data={"text/plain": "✓ two graphs"})
    task = new_output("execute_result", data={"text/markdown": "**A task** \n\n```python\ndef f(x): ...\n```"})
    return new_notebook(cells=[
        new_code_cell("%load_ext nbcompile"),
        new_markdown_cell("# Lecture\n\nGoals.\n\n## First\n\nProse."),
        new_code_cell("%%compile\nf(x)", outputs=[picture(sample.simple(), "summary", "source", "graph", "guards")]),
        new_code_cell("claim(...)", outputs=[claim]),
        new_markdown_cell("## Exercises"),
        new_code_cell('exercise("graph-1")', outputs=[task]),
        new_code_cell("# Your answer"),
    ])  # fmt: skip


@pytest.fixture
def reveal(tmp_path):
    """A folder with the files of reveal.js."""
    folder = tmp_path / "reveal.js"
    (folder / "dist").mkdir(parents=True)
    (folder / "dist" / "reveal.js").write_text("const said = '</script>';")
    (folder / "dist" / "reveal.css").write_text(".reveal { color: red }")
    return folder


def texts(column):
    return [slide.content.striptags() for slide in column]


def test_headings_are_columns_and_sections_of_a_picture_slides():
    """Text and code of a heading share a slide, and each section has one; set-up, claims, empty answers have none."""
    first, second, third = columns(notebook())
    assert texts(first) == ["Lecture Goals."]
    begin, *below = texts(second)
    assert begin.startswith("First Prose. %%compile f(x)")
    marks = [re.findall(r'data-s="?(\w+)', slide.content) for slide in second[1:]]
    assert [each for each in marks if each] == [["source", "graph"], ["guards"]]
    assert not any("claim" in text or "load_ext" in text for text in (begin, *below))
    assert "A task" in " ".join(texts(third)) and 'exercise("graph-1")' not in " ".join(texts(third))


def test_a_question_is_below_its_code():
    """Each question of --predict has a slide with the program; hidden outputs come after all of them."""
    cell = new_code_cell("%%compile --predict\nf(x)", outputs=[picture(sample.simple(), "predict", "graph")])
    [column] = columns(new_notebook(cells=[new_markdown_cell("## Predict"), cell]))
    asked = [index for index, slide in enumerate(column) if "n-questions" in slide.content]
    assert asked and all("%%compile --predict" in column[index].content.striptags() for index in asked)
    assert all(column[index].content.count("data-a=") == 1 for index in asked)
    assert max(asked) < next(index for index, slide in enumerate(column) if 'data-s="graph"' in slide.content)


def test_a_deck_needs_nothing_of_the_network(reveal):
    """The deck is one file with reveal.js, and no element loads another file."""
    page = deck(notebook(), "3_breaks", reveal)
    loaded = re.findall(r"""<(?:script|link|img)\b[^>]*?(?:src|href)=["']?([^"'>\s]+)""", page)
    assert [each for each in loaded if not each.startswith("data:")] == []
    assert "const said" in page and ".reveal { color: red }" in page and "✓ two graphs" not in page
    assert page.count("</script>") == page.count("<script"), "a string of reveal.js does not end its element"
    assert page.count("<style>.nbc") == 1, "the picture's style stands once"
    assert "<title>3_breaks</title>" in page


def test_without_reveal_the_command_says_how_to_get_it(tmp_path, capsys):
    """Without reveal.js, exit code 2 and a hint come before a lecture is executed."""
    with pytest.raises(SystemExit) as stopped:
        main(["notebooks/course/1_graphs.md", "--reveal", str(tmp_path)])
    assert stopped.value.code == 2 and "`make slides` fetches one" in capsys.readouterr().err


SMALL = """() => {
  const slide = Reveal.getCurrentSlide(), small = [], walker = document.createTreeWalker(slide, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), node = walker.currentNode.parentElement;
    if (!text || !node.checkVisibility() || node.closest("style, script") || getComputedStyle(node).fontSize === "0px") continue;
    const drawing = node.closest("svg"), zoom = node.currentCSSZoom ?? 1;
    const size = parseFloat(getComputedStyle(node).fontSize) * (drawing ? node.getScreenCTM().a * zoom : zoom * Reveal.getScale());
    const least = drawing || node.closest("pre, code") ? 18 : 24;
    if (size < least - 0.1) small.push(`${size.toFixed(1)} px: ${text.slice(0, 40)}`);
  }
  return [small, slide.scrollHeight, slide.scrollWidth];
}"""
"""Texts of the slide that are too small to read from the last row, and how much room its content takes."""


@pytest.mark.site
@pytest.mark.browser
@pytest.mark.timeout(900)
def test_slides_can_be_read_from_the_last_row(chromium):
    """At 1280 x 720 text has 24 pixels, code and drawings 18; slides are full width; at most 1 in 10 scrolls."""
    decks, wrong = sorted(BUILT.glob("*.slides.html")), []
    assert decks, f"nothing is built in {BUILT}: make slides"
    page = chromium.new_page(viewport={"width": 1280, "height": 720})
    page.on(
        "request", lambda request: wrong.append(request.url) if not request.url.startswith(("file:", "data:")) else None
    )
    page.on("pageerror", lambda error: wrong.append(str(error)))
    for built in decks:
        page.goto(built.as_uri())
        page.wait_for_function("window.Reveal && Reveal.isReady()")
        total, long = page.evaluate("Reveal.getTotalSlides()"), []
        for number in range(total):
            small, height, width = page.evaluate(SMALL)
            wrong += [f"{built.stem} {number + 1}: {each}" for each in small]
            wrong += [f"{built.stem} {number + 1}: {width} px wide"] if width > 1280 else []
            long += [number + 1] if height > 720 else []
            page.evaluate("Reveal.next()")
        if len(long) * 10 > total:
            wrong.append(f"{built.stem}: {len(long)} of {total} slides scroll: {long}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.site
@pytest.mark.browser
@pytest.mark.timeout(900)
def test_printed_lectures_cut_nothing_off(chromium):
    """What `make print` prints fits on A4: code, tables and graphs."""
    built, page = sorted(BUILT.glob("*.print.html")), chromium.new_page(viewport={"width": A4, "height": 1000})
    assert built, f"nothing is built in {BUILT}: make slides"
    page.emulate_media(media="print")
    wrong = []
    for path in built:
        page.goto(path.as_uri())
        wrong += [f"{path.stem}: {found}" for found in page.evaluate(CUT_OFF, A4)]
    assert not wrong, "\n".join(wrong)
