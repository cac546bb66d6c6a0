"""The roofline and the drawing of tiles: their contents, and their legibility in each host."""

from __future__ import annotations

import base64
import dataclasses
import itertools
import re
import urllib.parse

import pytest

from nbcompile.record.model import Gpu, GpuTile
from nbcompile.views import gpu_pictures, html
from tests.views import hosts, sample_records as sample
from tests.views.test_gpu import BUILT, RAN, page, record
from tests.views.test_html import luminance


def pictures(gpu: Gpu) -> list[tuple[str, str]]:
    """The alternative texts and drawings of the section."""
    found = re.findall(r'<img src="(data:[^"]*)" alt="([^"]*)"', page(gpu))
    return [(alt, urllib.parse.unquote(source)) for source, alt in found]


def test_kernels_are_dots_below_the_roofline():
    """Each kernel that ran is a dot below the roofline; the alternative text has its throughput."""
    (alt, drawing), _ = pictures(RAN)
    assert alt.startswith("Roofline of sm_90, by a model")
    assert "kernel0 reaches 0 %, limited by latency" in alt
    (line,) = re.findall(r"d='M([^']*)' class='r'", drawing)
    ((x, y),) = re.findall(r"<circle cx='(\d+)' cy='(\d+)'", drawing)
    corners = [tuple(map(int, corner.split())) for corner in line.split("L")]
    assert corners[0][0] < corners[1][0] < corners[2][0]
    assert corners[0][1] > corners[1][1] == corners[2][1]  # sloped, then flat
    (x0, y0), (x1, y1), _ = corners
    assert int(y) > y0 + (y1 - y0) * (int(x) - x0) / (x1 - x0)


def named(dots):
    """The texts at dots below a flat roof."""
    return gpu_pictures.labelled(dots, [(gpu_pictures.LEFT, 40.0), (328.0, 40.0)])


def test_a_name_is_next_to_its_dot_inside_of_the_picture():
    """A label is right of its dot, or left of it if it would be cut, or else below or above it."""
    assert named([("kernel0", 100, 100)]) == [("kernel0", 107, 104)]
    ((text, left, baseline),) = named([("kernel0", 320, 100)])
    assert (text, baseline) == ("kernel0", 104)
    assert left + len(text) * gpu_pictures.LETTER <= 320 - 7
    long = "triton_relu_mul_softmax_add_0"
    for x in range(60, 328, 9):
        ((text, left, baseline),) = named([(long, x, 100)])
        assert text == long
        assert gpu_pictures.LEFT < left < left + len(long) * gpu_pictures.LETTER < gpu_pictures.WIDTH


def test_names_cover_neither_each_other_nor_dots_nor_the_roof():
    """Without room for a label, its number is shown, or nothing; and the page says so."""
    near = [(f"triton_add_sum_{at}", 150 + 3 * at, 100 + 2 * at) for at in range(9)]
    apart = [("kernel9", 250, 150)]
    texts = named([*near, *apart, ("kernel10", 200, 46)])
    boxes = [gpu_pictures._box(*each) for each in texts if each[0]]
    assert not any(gpu_pictures._overlap(*pair) for pair in itertools.combinations(boxes, 2))
    assert all(not (box[0] < x < box[2] and box[1] < y < box[3]) for box in boxes for _, x, y in near)
    assert all(box[1] > 40 for box in boxes)
    assert texts[9][0] == "kernel9"
    shown = {text for text, _, _ in texts}
    assert {"", "triton_add_sum_0"} < shown

    assert "the number at its end" not in page(RAN)
    compiled = record(RAN).frames[0].compiled_graph
    many = tuple(dataclasses.replace(compiled.kernels[0], name=f"triton_add_sum_{at}") for at in range(9))
    drawn, is_named = gpu_pictures.roofline(many)
    assert not is_named
    assert "triton_add_sum_8 reaches" in drawn


def test_tiles_have_a_colour_for_each_program():
    """Elements of several programs are grey; a number is at a program's first element."""
    _, (alt, drawing) = pictures(RAN)
    assert alt == (
        "x (4 × 1000), 32 elements of it, is read by programs 0 to 3; b (1000 in a row), 8 elements of it, is read by "
        "several programs each; y (2 × 8) is written by program 7"
    )
    assert [int(number) for number in re.findall(r">(\d+)</text>", drawing)] == [0, 1, 2, 3, 7]
    tones = re.findall(r"<path d='[^']*' class='(\w+)'", drawing)
    assert tones == ["p0", "p1", "p2", "p3", "s", "p4", "n"]


def test_neighbours_have_two_colours():
    """Adjacent tiles differ in colour, also if a row has six tiles, the number of colours."""
    grid = tuple(6 * (row // 2) + column // 4 for row in range(8) for column in range(24))
    tile = GpuTile("x", "read", 8, 24, 8, 24, grid)
    tones = gpu_pictures._tones((tile,))
    below = ((at, at + 24) for at in range(7 * 24))
    beside = ((at, at + 1) for at in range(8 * 24) if (at + 1) % 24)
    for one, other in itertools.chain(below, beside):
        assert (tones[grid[one]] == tones[grid[other]]) == (grid[one] == grid[other])
    assert len({*tones.values()}) == 8, "six, grey, and the colour of nobody"


def test_what_the_drawing_shows_is_said_and_nothing_else():
    """Grey, pale and omitted elements have an explanation exactly where they appear."""
    everything = page(RAN)
    assert "evenly spaced ones are drawn" in everything
    assert "Grey: several programs." in everything
    assert "Pale: none." in everything
    whole = GpuTile("x", "read", 2, 8, 2, 8, (0,) * 8 + (1,) * 8)
    plain = page(dataclasses.replace(RAN, tiles=(whole,)))
    assert "A number is that of a program" in plain
    assert not re.search("Grey|Pale|evenly|Colours repeat", plain)
    many = GpuTile("x", "read", 7, 8, 7, 8, tuple(row for row in range(7) for _ in range(8)))
    assert "Colours repeat" in page(dataclasses.replace(RAN, tiles=(many,)))


def test_a_long_row_goes_on_in_the_next_line():
    """A long row is wrapped after 32 cells, so that the text is legible at 400 pixels."""
    row = GpuTile("x", "read", 1, 4096, 1, 64, tuple(at // 16 for at in range(64)))
    _, (_, drawing) = pictures(dataclasses.replace(RAN, tiles=(row,)))
    assert {int(y) for y in re.findall(r"M\d+ (\d+)h", drawing)} == {18, 30}
    assert [int(number) for number in re.findall(r">(\d+)</text>", drawing)] == [0, 1, 2, 3]
    assert max(gpu_pictures.WIDTH, 32 * gpu_pictures.CELL + 4) <= 344


def test_what_was_not_run_has_no_picture():
    """A kernel that did not run has no picture."""
    assert pictures(BUILT) == []


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_every_text_of_a_picture_has_contrast(theme):
    """Texts have a contrast of at least 4.5 to 1 (WCAG AA)."""
    pairs = re.findall(r"\.?(\w+)\{[^}]*?light-dark\((#\w+),(#\w+)\)", gpu_pictures._STYLE + gpu_pictures._TONES)
    colours = {name: pair[theme] for name, *pair in pairs}
    ground = ("#fff", "#15181e")[theme]
    on = [("text", ground), ("m", ground), ("w", colours["p0"]), *(("text", colours[f"p{at}"]) for at in range(1, 6))]
    for ink, below in on:
        high, low = sorted((luminance(colours.get(ink, ink)), luminance(below)), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5, (ink, below)


# --- in a browser --------------------------------------------------------------------------------

PIXEL = """
async url => {
  const image = new Image(); image.src = url; await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height), context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  return [...context.getImageData(image.width - 3, 3, 1, 1).data].slice(0, 3).join();
}
"""
LIGHT, DARK = "255,255,255", "21,24,30"


def ground_of(shown, picture):
    """The colour of a picture's corner, as it is drawn."""
    shot = base64.b64encode(picture.screenshot()).decode()
    return shown.context.new_page().evaluate(PIXEL, f"data:image/png;base64,{shot}")


@pytest.mark.browser
@pytest.mark.parametrize(
    ("reader", "host", "wanted"),
    [("light", "", LIGHT), ("dark", "", LIGHT), ("dark", "light dark", DARK), ("light", "dark", DARK)],
)
def test_pictures_have_the_theme_of_their_page(chromium, reader, host, wanted):
    """Pictures have the theme of the page, not of the reader's system; a page without a theme is light; no script."""
    head = f'<meta charset=utf-8><meta name=color-scheme content="{host}">' if host else "<meta charset=utf-8>"
    context = chromium.new_context(color_scheme=reader, java_script_enabled=False)
    shown = context.new_page()
    shown.set_content(f"<!doctype html>{head}{html.render(record(RAN), ('graph', 'kernels'))}")
    shown.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    found = shown.locator("img")
    assert found.count() == 3
    assert {ground_of(shown, found.nth(at)) for at in range(3)} == {wanted}
    below = shown.locator(".nbc").evaluate("each => getComputedStyle(each).backgroundColor")
    assert below.replace(" ", "") == f"rgb({wanted})"
    context.close()


@pytest.mark.browser
def test_a_switch_of_the_pages_theme_repaints_pictures(browser_page):
    """A switch of the theme repaints pictures in both directions."""
    shown = browser_page(html.render(record(RAN), ("kernels",)), theme="dark")
    for theme, wanted in (("light", LIGHT), ("dark", DARK), ("light", LIGHT)):
        shown.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
        assert ground_of(shown, shown.locator("img").first) == wanted


@pytest.mark.browser
@pytest.mark.parametrize("reader", ["light", "dark"])
def test_a_picture_without_any_style_has_a_ground(browser_page, reader):
    """Without styles, pictures and graphs have a background of their own, whatever the host's theme is."""
    output = hosts.STILL["lab, untrusted"](html.render(record(RAN), ("graph", "kernels")))
    shown = browser_page(f'<div style="background: #777">{output}</div>', theme=reader)
    shown.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    found = shown.locator("img")
    assert found.count() == 3
    assert {ground_of(shown, found.nth(at)) for at in range(3)} == {LIGHT if reader == "light" else DARK}


FITS = """
() => {
  document.querySelectorAll("details").forEach(each => { each.open = true; });
  const wide = [...document.querySelectorAll(".n-scroll")].filter(each => each.scrollWidth > each.clientWidth + 1);
  const lines = document.querySelector(".n-lines"), pane = lines.querySelector(".n-scroll").getBoundingClientRect();
  const split = [...document.querySelectorAll("td, .n-tiles li")].filter(each => /^[\\d.,]+\\s\\S{1,2}$/.test(each.textContent))
    .filter(each => { const range = document.createRange(); range.selectNodeContents(each); return range.getClientRects().length > 1; });
  return {
    wide: wide.map(each => each.textContent.slice(0, 40)),
    sideways: document.documentElement.scrollWidth - innerWidth,
    cut: [...lines.querySelectorAll("code")].filter(each => each.getBoundingClientRect().right > pane.right + 1).length,
    sass: [...lines.querySelectorAll("small")].filter(each => each.textContent === "SASS").length,
    split: split.map(each => each.textContent),
    scaled: [...document.querySelectorAll("img.n-picture")].filter(each => each.clientWidth < each.getAttribute("width")).length,
  };
}
"""


@pytest.mark.browser
@pytest.mark.parametrize("width", [1200, 700, 400])
@pytest.mark.parametrize("scripts", [True, False])
def test_nothing_is_cut_at_the_right(browser_page, width, scripts):
    """Figures, PTX, SASS and pictures fit without sideways scrolling; a number is not separated from its unit."""
    long = ("ld.global.L1::evict_first.L2::cache_hint.v4.b32", "mov.u32", "mul.wide.s32", "add.s64")
    lines = tuple(dataclasses.replace(line, ptx=long, sass=("LDG.E.EF.128.CONSTANT", *long)) for line in RAN.lines)
    output = html.render(record(dataclasses.replace(RAN, lines=lines)), ("source", "graph", "kernels"))
    seen = browser_page(output, width=width, java_script_enabled=scripts).evaluate(FITS)
    assert seen.pop("sideways") <= 0
    assert seen == {"wide": [], "cut": 0, "sass": 2, "split": [], "scaled": 0}


def test_a_page_without_a_target_carries_no_style_for_it():
    """A page without a target does not contain the styles of these views."""
    assert ".n-lines" not in html.render(sample.simple(), ("kernels",))
    assert ".n-lines{" in page(RAN)
    assert ".n-lines{" not in html.render(record(RAN), ("graph",))
