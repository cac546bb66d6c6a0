"""A notebook as one page."""

from __future__ import annotations

import re

import pytest
from nbformat import v4

from nbcompile.tools.page import page
from nbcompile.views import html, sections
from tests.views import sample_records as sample


def notebook(*cells):
    return v4.new_notebook(cells=list(cells))


def code(source, *outputs, tags=()):
    return v4.new_code_cell(source, outputs=list(outputs), metadata={"tags": list(tags)})


def test_prose_and_contents():
    """The first heading is the title; second-level headings are the contents."""
    text = page(notebook(v4.new_markdown_cell("# A & B\n\n## One `x`\n\nwords"), v4.new_markdown_cell("## Two")))
    assert "<title>A &amp; B</title>" in text
    assert re.findall(r'<li><a href="#([^"]+)">', text) == ["one-x", "two"]
    assert '<h2 id="one-x">One <code>x</code></h2>' in text


def test_what_a_user_prints_is_escaped():
    """Streams, values and errors are escaped."""
    evil = "<script>alert(1)</script>"
    text = page(
        notebook(
            code(
                f"print({evil!r})",
                v4.new_output("stream", name="stdout", text=evil),
                v4.new_output("execute_result", data={"text/plain": evil}),
                v4.new_output("error", ename="E", evalue=evil, traceback=["\x1b[31m" + evil]),
            )
        )
    )
    assert "<script" not in text
    assert text.count("&lt;script&gt;alert(1)") == 4  # the cell's own source too
    assert "\x1b" not in text


def test_rich_outputs_come_before_plain_ones():
    """HTML is inserted without its text; a claim is marked."""
    rich = v4.new_output("display_data", data={"text/html": "<b>graph</b>", "text/plain": "graph in words"})
    sentence = v4.new_output("display_data", data={"text/plain": "✓ so"})
    text = page(notebook(code("f(x)", rich, sentence)))
    assert '<div class="out rich"><b>graph</b></div>' in text
    assert "graph in words" not in text
    assert '<pre class="out claim">✓ so</pre>' in text


def test_tags():
    """remove-cell, remove-input and remove-output work as in the documentation."""
    out = v4.new_output("stream", name="stdout", text="printed")
    cells = code("hidden", out, tags=["remove-cell"]), code("secret", out, tags=["remove-input"])
    text = page(notebook(*cells, code("quiet", out, tags=["remove-output"])))
    assert "hidden" not in text
    assert "secret" not in text
    assert "quiet" in text
    assert text.count("printed") == 1


def test_a_magic_cell_is_highlighted():
    """The body of %%compile is highlighted as Python."""
    assert '<span class="k">def</span>' in page(notebook(code("%%compile\ndef f(x):\n    return x")))


@pytest.mark.browser
def test_the_page_asks_for_nothing(chromium):
    """The page's own content policy stops markup that would fetch something."""
    picture = v4.new_output("display_data", data={"text/html": '<img src="http://example.invalid/x.png">'})
    opened = chromium.new_page()
    stopped, came = [], []
    opened.on("requestfailed", lambda request: stopped.append(request.failure))
    opened.on("response", lambda response: came.append(response.url))
    opened.set_content(page(notebook(code("f(x)", picture))), wait_until="networkidle")
    assert (stopped, came) == (["csp"], [])


A4 = 718
"""Pixels across a sheet, without margins."""
CUT_OFF = """width => [...document.querySelectorAll("main *")].filter(each => {
  const box = each.getBoundingClientRect(), clipped = getComputedStyle(each).overflowX !== "visible" && !each.closest("svg");
  return box.width > 0 && !each.closest("svg svg, svg g") && getComputedStyle(each).position !== "absolute" &&
    (box.right > width + 1 || (clipped && each.scrollWidth > each.clientWidth + 1));
}).map(each => `${each.tagName} ${each.className?.baseVal ?? each.className}: ${each.textContent.trim().slice(0, 60)}`)"""
"""What of a printed page is beyond its edge, or in a pane that scrolls: paper does not."""


@pytest.mark.browser
def test_paper_cuts_nothing_off(chromium, tmp_path):
    """On A4, from a dark desktop, too, lines wrap, tables fit, folds are open, and text is dark."""
    long = "claim('so it is', " + " + ".join(f"number_{number}" for number in range(40)) + ")"
    outputs = [v4.new_output("stream", name="stdout", text="word " * 200 + "\n" + "x" * 300 + "\n" + "line\n" * 100)]
    task = f"**A task**\n\n```python\n{long}\n```"
    outputs.append(v4.new_output("execute_result", data={"text/markdown": task, "text/plain": "task"}))
    for record in (sample.simple(), sample.recompiled(), sample.nested()):
        shown = html.render(record, tuple(sections.SECTIONS))
        outputs.append(v4.new_output("display_data", data={"text/html": shown, "text/plain": "picture"}))
    file = tmp_path / "page.html"
    file.write_text(page(notebook(v4.new_markdown_cell("# A"), code(long, *outputs))), encoding="utf-8")
    printed = chromium.new_page(viewport={"width": A4, "height": 1000}, color_scheme="dark")
    printed.emulate_media(media="print")
    printed.goto(file.as_uri())
    assert printed.evaluate(CUT_OFF, A4) == []
    assert printed.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    folded = "[...document.querySelectorAll('main details:not([open]):has(> :not(summary))')].filter(each => each.getBoundingClientRect().height < 40)"
    assert printed.evaluate(f"{folded}.map(each => each.textContent.slice(0, 60))") == []
