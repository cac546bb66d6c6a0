"""Each view in each host works with scripts, and is legible without, in light, dark and forced colours."""

from __future__ import annotations

import dataclasses
import functools

import pytest
import torch

import nbcompile
from nbcompile import api
from nbcompile.record.model import Lifetime
from nbcompile.tracing import breaks
from nbcompile.views import html, sections
from tests.views import hosts, sample_records as sample
from tests.views.paper import letters, text_of
from tests.views.test_figures import compiled as wobbled
from tests.views.test_html import poisoned

pytestmark = pytest.mark.browser


def scaled(v, k):
    return v * k


def looping(x):
    y = scaled(x, 2)
    for i in range(4):
        y = y + i
    torch._dynamo.graph_break()
    return y.sin()


@functools.cache
def compiled():
    """A record with a break, a recompilation, and steps."""
    nbcompile.reset()
    function, frame_recorder = nbcompile.compile(looping, backend="eager"), api.new_recorder("looping")
    with frame_recorder.listening(), nbcompile.config.patch(record_steps=True):
        function(torch.ones(3))
        function(torch.ones(4))
    return frame_recorder.record()


PAGES = {
    "simple": lambda: html.render(sample.simple()),
    "break": lambda: html.render(sample.save_break()),
    "nested": lambda: html.render(sample.nested()),
    "mutating": lambda: html.render(sample.mutating()),
    "skipped": lambda: html.render(sample.skipped()),
    "compiled": lambda: html.render(compiled(), sections.USUAL),
    "predict": lambda: html.render(compiled(), ["predict", "source", "graph"]),
}
THEMES = ("light", "dark", "forced")


def opened(browser_page, page, host, theme, width):
    """The page in a host, and the frame that contains the output."""
    options = {"forced_colors": "active"} if theme == "forced" else {}
    if host == "no script":
        options["java_script_enabled"] = False
    shown = browser_page(
        hosts.HOSTS[host](PAGES[page]()), width=width, theme="dark" if theme == "dark" else "light", **options
    )
    return shown, (shown.frames[1] if host == "iframe" else shown.main_frame)


LOOK = """
() => {
  const all = (root, what) => [...root.querySelectorAll(what)], outputs = all(document, ".nbc");
  all(document, "details").forEach(each => each.open = true);
  const seen = {
    outputs: outputs.length, live: outputs.filter(each => each.dataset.up).length,
    tools: all(document, ".n-tools").length >= outputs.length,
    images: all(document, "img").length, drawings: all(document, "svg").length,
    wide: document.documentElement.scrollWidth - innerWidth,
    text: document.body.innerText,
    ground: outputs[0] && getComputedStyle(outputs[0]).backgroundColor,
  };
  const node = outputs.at(-1)?.querySelector(".n-src [data-n]");
  node?.click();
  seen.lit = all(document, ".n-on").length;
  node?.click();
  return seen;
}
"""


def check(browser_page, page, host, theme, width):
    """Check a view in a host; the fixture checks that nothing is fetched and nothing fails."""
    shown, frame = opened(browser_page, page, host, theme, width)
    seen = frame.evaluate(LOOK)
    what = (page, host, theme, width)
    assert seen["wide"] <= 0 or host in hosts.STILL, f"{what} scrolls sideways"
    if host in hosts.LIVE:
        assert seen["live"] == seen["outputs"] == (2 if host == "twice" else 1), what
        assert seen["tools"], what
        assert seen["images"] == 0, "pictures are drawings"
        assert seen["drawings"] >= 1 or page == "skipped", what
        assert seen["lit"] > 0 or page == "skipped", what
    else:
        assert seen["drawings"] == 0, what
        assert seen["lit"] == 0, what
    # The texts that must be legible, whatever is stripped.
    for word in ("nbcompile", "def ", *WORDS[page]):
        assert word in seen["text"], (*what, word)
    return seen["ground"]


WORDS = {
    "simple": ("torch.sin(x) * scale", "TENSOR_MATCH", "kernel0", "graph_out", "LOAD_GLOBAL", "sum_1"),
    "break": ("graph break", "torch.save", "Live values carried over", "Explanation"),
    "nested": ("one cause, 3 frames ended by it", "goes on at line 13"),
    "mutating": ("Side effects", "self.weight"),
    "skipped": ("no lowering for prims.frobnicate", "skipped"),
    "compiled": (
        "What if the call were another?",
        "x: shape",
        "symbolic interpreter",
        "BINARY_OP",
        "size of tensor 'x'",
    ),
    "predict": ("How many graphs does looping become", "Answer", "Which entry"),
}

QUICK = [
    ("simple", "static", "light", 1280), ("break", "twice", "dark", 400), ("compiled", "lab", "light", 400),
    ("predict", "lab, run again", "dark", 1280), ("compiled", "vs code", "forced", 1280), ("nested", "iframe", "light", 1280),
    ("compiled", "lab, untrusted", "light", 1280), ("break", "sanitised", "light", 1280), ("predict", "no script", "dark", 400),
    ("simple", "myst", "dark", 400), ("compiled", "marimo", "dark", 1280),
]  # fmt: skip


@pytest.mark.parametrize(("page", "host", "theme", "width"), QUICK)
def test_a_view_in_a_host(browser_page, page, host, theme, width):
    """Each host is checked once, each time with another view, theme and width."""
    check(browser_page, page, host, theme, width)


@pytest.mark.parametrize(
    "harm", ["<script>eval('1')</script>", "<img src='https://example.org/a.png'>", "<script>throw 1</script>"]
)
def test_what_outputs_must_not_do_is_seen(browser_page, harm):
    """The fixture finds evaluated text, a fetch, and an error."""
    browser_page(html.render(sample.simple()) + harm).wait_for_timeout(200)
    assert browser_page.complaints
    browser_page.complaints.clear()


@pytest.mark.slow
@pytest.mark.parametrize("host", hosts.HOSTS)
@pytest.mark.parametrize("page", PAGES)
def test_every_view_in_every_host(browser_page, page, host):
    """Each view is legible in each host, theme and width; a dark theme has another background."""
    for width in (400, 1280):
        ground = {theme: check(browser_page, page, host, theme, width) for theme in THEMES}
        if host in hosts.LIVE or host in ("no script", "marimo"):
            assert ground["light"] != ground["dark"]


LOOKS = """
() => {
  document.querySelectorAll("details").forEach(each => each.open = true);
  const what = ["textAlign", "verticalAlign", "padding", "marginTop", "marginBottom", "backgroundColor", "color", "fontSize", "fontWeight",
    "fontFamily", "lineHeight", "listStyleType", "tableLayout", "whiteSpace", "wordBreak", "maxWidth", "borderBottomWidth", "float", "marginLeft", "width"];
  return [...document.querySelectorAll(".nbc, .nbc *:not(option, style, script)")].map(each => {
    const style = getComputedStyle(each);
    return [each.localName, each.className.baseVal ?? each.className, ...what.map(name => `${name} ${style[name]}`)];
  });
}
"""


@pytest.mark.parametrize("page", ["compiled", "predict", "nested"])
def test_hosts_do_not_change_how_it_looks(browser_page, page):
    """Each element looks as on an empty page, in spite of JupyterLab's styles for tables, lists and code."""
    output = PAGES[page]()
    alone, there = (browser_page(each).evaluate(LOOKS) for each in (output, hosts.in_lab(output)))
    assert len(alone) == len(there) > 100
    different = {(*one[:2], new) for one, other in zip(alone, there, strict=True) for new in {*other} - {*one}}
    assert not different, f"{sorted(different)}"


NARROW = r"""
() => {
  document.querySelectorAll("details").forEach(each => { each.open = true; });
  const caption = pane => pane.querySelector("caption").textContent;
  const panes = [...document.querySelectorAll(".n-scroll")], wraps = pane => !pane.matches(".n-grid");
  const broken = [...document.querySelectorAll(".n-grid tbody td")].filter(each => /^[\d,.]+\s(B|ms|µs)$/.test(each.textContent))
    .filter(each => { const range = document.createRange(); range.selectNodeContents(each); return range.getClientRects().length > 1; });
  return {
    wide: panes.filter(each => wraps(each) && each.scrollWidth > each.clientWidth + 1).map(caption),
    blank: [...document.querySelectorAll(".n-scroll:not(.n-grid) .n-again")].filter(each => each.offsetHeight).length,
    tables: panes.filter(wraps).length, broken: broken.map(each => each.textContent), numbers: document.body.innerText.includes("1,048,576\u00a0B"),
    rows: document.querySelectorAll("tbody tr").length,
  };
}
"""


def test_tables_fit_a_narrow_page(browser_page):
    """At 400 px rows wrap and do not scroll; none begins with a blank line; a size is not wrapped."""
    record = wobbled()
    frame = record.frames[0]
    plan = (Lifetime("buf0", "1048576", 1, 2), Lifetime("buf1", "1048576", 1, 0))
    frame = dataclasses.replace(frame, compiled_graph=dataclasses.replace(frame.compiled_graph, lifetimes=plan))
    shown = browser_page(
        html.render(dataclasses.replace(record, frames=(frame, *record.frames[1:])), sections.USUAL), width=400
    )
    seen = shown.evaluate(NARROW)
    assert (seen["wide"], seen["broken"], seen["blank"]) == ([], [], 0)
    assert seen["tables"] > 8
    assert seen["numbers"]


def test_the_longest_title_of_a_break_fits_a_narrow_page(browser_page):
    """Class names in torch's titles, joined by slashes, are broken only if necessary."""
    record = sample.save_break()
    title = max((kind.title for kind in breaks.KINDS.values()), key=lambda text: max(map(len, text.split())))
    frames = tuple(
        dataclasses.replace(frame, breaks=tuple(dataclasses.replace(each, title=title) for each in frame.breaks))
        for frame in record.frames
    )
    shown = browser_page(html.render(dataclasses.replace(record, frames=frames), "breaks"), width=400)
    assert title.split()[0][:20] in shown.content()
    assert shown.evaluate("document.documentElement.scrollWidth") <= 400


def test_a_title_with_names_of_classes_fits_a_narrow_page(browser_page):
    """Breaks of torch 2.6 have the repr of a class as reason; the summary quotes it, too."""
    record = sample.save_break()
    classes = ", ".join(["<class 'torch._dynamo.variables.dicts.HFPretrainedConfigVariable'>"] * 3)
    title = f"builtin: setattr [{classes}]"
    frames = tuple(
        dataclasses.replace(
            frame, breaks=tuple(dataclasses.replace(found, title=title, kind="") for found in frame.breaks)
        )
        for frame in record.frames
    )
    shown = browser_page(html.render(dataclasses.replace(record, frames=frames), sections.USUAL), width=390)
    assert "HFPretrainedConfigVariable" in shown.locator("header").inner_text()
    assert shown.evaluate("document.documentElement.scrollWidth") <= 390


# --- people who cannot see, or use no mouse ----------------------------------------------------

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


def violations(page, *, styled=True):
    """axe's violations; without our styles targets have the browser's default size, which WCAG exempts."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe-core comes with axe-playwright-python"
    )
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    rules = {} if styled else {"target-size": {"enabled": False}}
    found = axe.Axe().run(page, options={"runOnly": {"type": "tag", "values": RULES}, "rules": rules})
    return [
        (each["id"], each["nodes"][0]["target"], each["nodes"][0]["failureSummary"])
        for each in found.response["violations"]
    ]


def test_axe_finds_nothing(browser_page):
    """axe finds no violation of WCAG 2.2 AA with everything unfolded."""
    shown, _ = opened(browser_page, "simple", "static", "dark", 1280)
    assert violations(shown) == []


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("host", ["static", "lab, untrusted", "no script"])
def test_axe_finds_nothing_anywhere(browser_page, page, host):
    """axe finds no violation in any theme and width."""
    for theme in THEMES:
        for width in (400, 1280):
            shown, _ = opened(browser_page, page, "static" if host == "no script" else host, theme, width)
            assert violations(shown, styled=host != "lab, untrusted") == [], (theme, width)


TABBED = """
() => {
  const node = document.activeElement;
  if (node === document.body) return null;
  const style = getComputedStyle(node);
  return {
    at: [...document.querySelectorAll("*")].indexOf(node), name: node.localName,
    seen: node.checkVisibility() && (style.outlineStyle !== "none" || node.closest("svg") !== null),
    said: (node.getAttribute("aria-label") || node.textContent || node.placeholder || "").trim().slice(0, 40),
  };
}
"""
REACHABLE = """
() => [...document.querySelectorAll("summary, button, input, select, [tabindex='0']")]
  .filter(each => each.checkVisibility() && !each.disabled).map(each => [...document.querySelectorAll("*")].indexOf(each))
"""


@pytest.mark.parametrize("page", ["simple", "compiled", "predict"])
def test_every_control_is_reached_with_tab(browser_page, page):
    """Tab reaches each control in page order, with a visible focus and a name, and leaves the page."""
    shown, _ = opened(browser_page, page, "static", "light", 1280)
    wanted, met = shown.evaluate(REACHABLE), []
    for _ in range(len(wanted) + 10):
        shown.keyboard.press("Tab")
        here = shown.evaluate(TABBED)
        if here is None:
            break
        assert here["seen"], here
        assert here["said"] or here["name"] == "input", here
        met.append(here["at"])
    assert met == sorted(met)
    # A scrolling pane is a tab stop in Chromium: it may appear, too.
    assert set(wanted) <= set(met), [each for each in wanted if each not in met]


def test_a_journey_without_a_mouse(browser_page):
    """Unfolding, walking a pane, selecting, what-if, steps and questions work by keyboard."""
    shown, _ = opened(browser_page, "compiled", "static", "light", 1280)
    keys = shown.keyboard

    guards = shown.locator("[data-s=guards] > summary").first
    guards.focus()
    keys.press("Enter")
    assert shown.locator("[data-s=guards]").first.evaluate("each => each.open")

    shown.locator(".n-src [tabindex='0']").first.focus()
    keys.press("ArrowDown")
    keys.press("Enter")
    assert shown.locator("svg .n-on").count() > 0
    keys.press("Escape")
    assert shown.locator(".n-on[data-n]").count() == 0

    field = shown.get_by_label("x: shape, your call").first
    field.focus()
    keys.press("Control+A")
    keys.type("9")
    assert "Hit" in shown.locator(".n-what [role=status]").first.inner_text()

    slider = shown.locator(".n-steps input").first
    slider.focus()
    before = slider.evaluate("each => each.ariaValueText")
    keys.press("ArrowRight")
    keys.press("ArrowRight")
    keys.press("ArrowLeft")
    assert slider.input_value() == "1"
    assert slider.evaluate("each => each.ariaValueText") != before

    shown, _ = opened(browser_page, "predict", "static", "light", 1280)
    shown.locator(".n-questions button").first.focus()
    shown.keyboard.press("Space")
    assert shown.locator(".n-questions details").first.evaluate("each => each.open")


# --- paper, and people who mean harm -----------------------------------------------------------


SAID = """
() => {
  const texts = [], walker = document.createTreeWalker(document.querySelector(".nbc"), NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode())
    if (!node.parentElement.closest("script, option, .n-again, .n-tools, dl, [role=status]")) texts.push(...node.data.split("\\n"));
  return texts;
}
"""


@pytest.mark.parametrize("scripts", [True, False])
def test_paper_shows_everything(browser_page, scripts):
    """The PDF has each word of the page, folded or not, with or without scripts, except controls."""
    page = browser_page(html.render(compiled(), sections.USUAL), java_script_enabled=scripts)
    printed, said = text_of(page.pdf()), page.evaluate(SAID)
    assert len(said) > 1000
    assert [each for each in said if letters(each) not in printed] == []
    assert "Unfoldall" not in printed


WORDS_OF_HARM = [
    "</script><img src=x onerror=alert(1)><script>alert(2)</script>", "\"'><svg onload=alert(3)>", "javascript:alert(4)",
    "</style><iframe srcdoc='<script>parent.alert(5)</script>'>", "<lambda> \\ \N{RIGHT-TO-LEFT OVERRIDE} \N{PARTY POPPER} \\N{x} ${alert(6)}",
]  # fmt: skip


def check_poisoned(browser_page, host, word, show):
    output = html.render(poisoned(sample.recompiled(), word), show)
    page = browser_page(hosts.LIVE[host](output))
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    assert page.evaluate(LOOK)["live"] == 1
    assert page.locator(".nbc :is(img, iframe, script:not([type='application/json']))").count() == 0


def test_what_users_write_stays_text(browser_page):
    """Hostile text in each field of a record is neither run, fetched nor drawn."""
    check_poisoned(browser_page, "lab", "".join(WORDS_OF_HARM), sections.USUAL)


@pytest.mark.slow
@pytest.mark.parametrize("host", ["static", "lab", "vs code"])
@pytest.mark.parametrize("word", WORDS_OF_HARM)
def test_each_word_of_harm_stays_text(browser_page, host, word):
    """Each hostile word is escaped in each host with scripts."""
    for show in (sections.USUAL, ["predict"]):
        check_poisoned(browser_page, host, word, show)
