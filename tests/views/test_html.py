"""The HTML of records: legible when stripped, safe, small, deterministic."""

from __future__ import annotations

import dataclasses
import re
import xml.etree.ElementTree as ET
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
import torch

import nbcompile
from nbcompile import views
from nbcompile.views import assets, dot, html, report, sections, text
from nbcompile.views.explanation import MOST_TEXT
from tests.views import sample_records as sample

STATIC = Path(assets.__file__).parent / "static"
VOID = {"meta", "img", "br", "input"}


class Page(HTMLParser):
    """A parser that counts the elements of a page, and checks that it is balanced."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.visible, self.links = [], Counter(), [], [], []
        self.programs = 0
        self.feed(text)
        self.close()
        assert self.open == [], "all elements are closed"

    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1
        self.attributes += attributes
        self.programs += tag == "script" and ("type", "application/json") not in attributes
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        assert tag in VOID, tag
        self.tags[tag] += 1
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, "elements are closed in order"

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.visible.append(data)

    @property
    def text(self):
        return "".join(self.visible)


each_sample = pytest.mark.parametrize("name", sample.ALL)


@each_sample
def test_it_is_balanced_and_has_no_ids(name):
    """Notebooks duplicate outputs, so the HTML has no ids."""
    page = Page(html.render(sample.ALL[name]()))
    assert "id" not in dict(page.attributes)
    assert not [key for key, _ in page.attributes if key.startswith("on")], "no inline handlers"
    assert "href" not in dict(page.attributes)


@each_sample
@pytest.mark.parametrize("show", [*sections.SECTIONS, None])
def test_every_section_of_every_record_renders(name, show):
    """Each section of each record renders, and rendering is deterministic."""
    once = html.render(sample.ALL[name](), show)
    Page(once)
    assert once == html.render(sample.ALL[name](), show)


def poisoned(value, word):
    """The same record with a word in each string."""
    if isinstance(value, str):
        return value + word
    if isinstance(value, tuple):
        return tuple(poisoned(each, word) for each in value)
    if dataclasses.is_dataclass(value):
        kept = {"schema", "status", "op", "language", "kind", "test"}  # of few known values, and JSON: poisoned below
        return dataclasses.replace(
            value,
            **{f.name: poisoned(getattr(value, f.name), word) for f in dataclasses.fields(value) if f.name not in kept},
        )
    return value


@each_sample
@pytest.mark.parametrize(
    "word",
    [
        "</script><img src=x onerror=alert(1)>",
        "\"'><svg onload=alert(1)>",
        "</style><b>",
        "javascript:alert(1)//<a href=x>",
        "]]>&amp;<!--",
    ],
)
def test_nothing_from_the_user_becomes_markup(name, word):
    """Hostile text in each string adds no element, no handler and no link."""
    record = sample.ALL[name]()
    clean, dirty = Page(html.render(record, limit=None)), Page(html.render(poisoned(record, word), limit=None))
    # Highlighting and code in backticks may be split differently; nothing else may.
    loose = {"span", "code"}
    assert {tag for tag in dirty.tags if tag not in loose} == {tag for tag in clean.tags if tag not in loose}
    assert dirty.tags["script"] == clean.tags["script"]
    assert dirty.tags["style"] == 1
    assert not [key for key, _ in dirty.attributes if key.startswith("on") or key in ("href", "srcdoc")]
    assert dirty.tags["img"] == len(drawings(dirty)) == clean.tags["img"]
    assert word in dirty.text
    Page(report.of_record(poisoned(record, word)))


@pytest.mark.parametrize("field", ["status", "cause", "id"])
def test_fields_of_few_values_are_escaped_too(field):
    """Even a status that no compiler writes is escaped."""
    word = "<img src=x onerror=alert(1)>"
    record = sample.simple()
    frame = dataclasses.replace(record.frames[0], **{field: word})
    page = Page(html.render(dataclasses.replace(record, frames=(frame,))))
    assert word in page.text or word in dict(page.attributes).values()
    assert "onerror" not in dict(page.attributes)


def drawings(page):
    """The parsed SVG of each picture."""
    prefix = "data:image/svg+xml,"
    sources = [value for key, value in page.attributes if key == "src"]
    assert all(each.startswith(prefix) for each in sources), "pictures are data, nothing is fetched"
    return [ET.fromstring(unquote(each.removeprefix(prefix))) for each in sources]


def test_the_picture_and_its_table_are_equivalent():
    """The table has a row for each box, with the same links; the picture has an alternative text."""
    page = Page(html.render(sample.simple(), "graph", assets=False))
    (drawing,) = drawings(page)
    boxes = [each.get("data-n") for each in drawing.iter("{http://www.w3.org/2000/svg}g")]
    rows = re.findall(r"<tr data-n=(\w+)", html.render(sample.simple(), "graph", assets=False))
    assert boxes == rows == [f"n{index}" for index in range(7)]
    assert dict(page.attributes)["alt"] == "captured graph of f: 1 input, 5 operators; the table below lists them"


def test_without_a_layout_engine_the_table_is_shown(monkeypatch):
    """Without a layout engine the table is open, and the page says why."""
    monkeypatch.setattr(dot, "arrange", lambda shown: None)
    shown = html.render(sample.simple(), "graph", assets=False)
    assert "neither pygraphviz nor a `dot` program was found" in shown
    assert "<details open><summary>Table" in shown
    assert "<img" not in shown


def test_sizes_keep_their_budgets():
    """The outputs are within their size limits: a notebook saves each of them."""
    assert len(assets.script(*html.ALL_PROGRAMS).encode()) <= 12 * 1024
    assert len(html.render(sample.simple()).encode()) <= 27 * 1024
    assert len(assets.styles().encode()) <= 8 * 1024


def test_a_simple_function_is_small():
    """A function of three operators takes at most 25 KiB, and 20,000 characters as text."""

    def f(x, y):
        z = torch.sin(x) + y
        return z * 2

    nbcompile.reset()
    record = nbcompile.explain(f)(torch.randn(8), torch.randn(8)).record
    assert record.frames[0].compiled_graph.kernels[0].language == "cpp"
    assert len(html.render(record).encode()) <= 25 * 1024
    assert len(text.render(record)) <= MOST_TEXT


def test_a_huge_record_is_cut_visibly():
    """Above the limit parts are left out, and the page says which."""
    record = sample.long_chain(4_000)
    shown = html.render(record)
    assert len(shown.encode()) <= html.HARD_LIMIT
    assert "see the full report" in Page(shown).text
    full = html.render(record, limit=None)
    assert len(full) > html.HARD_LIMIT
    assert "see the full report" not in Page(full).text


def test_a_record_of_endless_strings_still_fits():
    """A repr of 100 MB does not make an output of 100 MB."""
    record = poisoned(sample.nested(), "x" * 30_000)
    shown = html.render(record)
    assert len(shown.encode()) <= html.HARD_LIMIT
    Page(shown)


@each_sample
def test_stripped_of_styles_and_scripts_it_says_everything(name):
    """Without styles and scripts, as in an untrusted notebook, the facts are in elements that unfold natively."""
    record = sample.ALL[name]()
    page = Page(html.render(record, assets=False))
    assert page.programs == page.tags["style"] == 0
    for frame in record.frames:
        assert frame.function in page.text
        for guard in frame.guards:
            alike = guard.kind == "DIMENSION_DYNAMIC_MARKING_GUARD"  # one of them is shown for all tensors
            assert guard.condition in page.text or alike
        for each in frame.breaks:
            assert each.title.replace("`", "") in page.text
            assert each.context in page.text
        for node in frame.graph.nodes if frame.graph else ():
            assert node.arguments in page.text
        for kernel in frame.compiled_graph.kernels if frame.compiled_graph else ():
            assert kernel.source.strip() in page.text
        assert frame.residual.strip() in page.text


def test_a_broken_line_and_its_carets_are_shown():
    """A break has torch's report: title, explanation, hints, debug context, stack with carets."""
    page = Page(html.render(sample.save_break(), "breaks", assets=False))
    for part in (
        "Attempted to call function marked as skipped",
        "Explanation",
        "Hint",
        "Developer debug context",
        "^^^^^",
    ):
        assert part in page.text


def test_one_cause_is_shown_once():
    """A nested break that ended three frames has one explanation, and the tree refers to it three times."""
    page = Page(html.render(sample.nested(), ["breaks", "tree"], assets=False))
    assert page.text.count("User-inserted graph break. Message: None") == 1
    assert "one cause, 3 frames ended by it" in page.text


def test_a_recompile_shows_what_was_wanted_and_what_came():
    """A recompile shows entry, guard, expected and actual value, dimension, and the user's line."""
    page = Page(html.render(sample.recompiled(), "recompilations", assets=False))
    for part in ("size of tensor 'x'", "1024", "2048", "check_tensor(L['x']", "y = torch.sin(x) * scale", "3.0"):
        assert part in page.text


def test_jupyter_gets_both_forms():
    """Jupyter gets HTML and text."""
    bundle = views.mimebundle(sample.simple(), ["summary"])
    assert bundle["text/plain"].startswith("nbcompile: f")
    assert "class=nbc" in bundle["text/html"]


def test_a_report_is_one_document():
    """Styles and scripts appear once for all records, and nothing is fetched."""
    parts = [
        report.Section(f"Part <{name}>", make(), prose="One.\n\nTwo.", code="f(x)", output="<3")
        for name, make in sample.ALL.items()
    ]
    text = report.page("A <tour>", parts)
    page = Page(text.removeprefix("<!doctype html>\n"))
    assert page.programs == 1
    assert page.tags["section"] == len(sample.ALL)
    assert page.tags["html"] == page.tags["title"] == 1
    assert "A <tour>" in page.text
    assert not re.search(r'(src|href)="?(?!"?data:|"?#)', text)
    ids = [value for key, value in page.attributes if key == "id"]
    assert len(ids) == len(set(ids)) > len(parts)
    assert "name=viewport" in text


def luminance(colour):
    colour = colour.lstrip("#")
    colour = "".join(each * 2 for each in colour) if len(colour) == 3 else colour
    parts = [int(colour[index : index + 2], 16) / 255 for index in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("ink", "ground"),
    [*((ink, ground) for ink in ("ink", "mut", "acc", "kw", "str", "num") for ground in ("bg", "sub", "hi", "on")),
     ("ok", "okb"), ("warn", "warnb"), ("bad", "badb"), ("acc", "accb"), ("mut", "accb"),
     ("ok", "bg"), ("warn", "bg"), ("bad", "bg")],
)  # fmt: skip
def test_every_text_has_contrast(ink, ground, theme):
    """Texts have a contrast of at least 4.5 to 1 (WCAG AA), on each background, in both themes."""
    pairs = re.findall(r"--(\w+): light-dark\((#\w+), (#\w+)\)", (STATIC / "theme.css").read_text())
    colours = {name: pair[theme] for name, *pair in pairs}
    high, low = sorted((luminance(colours[ink]), luminance(colours[ground])), reverse=True)
    assert (high + 0.05) / (low + 0.05) >= 4.5


def test_the_script_has_no_eval_and_no_inner_html():
    """The script inserts text only, and fetches nothing, as strict content policies require."""
    script = str(assets.script(*html.ALL_PROGRAMS))
    for word in ("eval(", "new Function", "innerHTML", "outerHTML", "document.write", "fetch(", "http", "import("):
        assert word not in script


def test_a_page_without_breaks_carries_no_style_for_them():
    """Only records with breaks, recompilations, exceptions or steps have the styles for stacks and reasons."""
    plain, broken = html.render(sample.simple()), html.render(sample.save_break())
    assert "dl{" not in plain and ".n-stack" not in plain
    assert "dl{" in broken and ".n-stack" in broken and "<dl>" in broken
    assert "<dl>" not in plain and "n-stack" not in plain
    for name, make in sample.ALL.items():
        shown = html.render(make())
        assert ("<dl>" not in shown and "n-stack" not in shown) or ".n-stack" in shown, name
