"""Each view by keyboard: unfold it, reach each control, walk its panes, select, and leave."""

from __future__ import annotations

import functools
import linecache
import os
from pathlib import Path

import pytest
import torch

import nbcompile
from nbcompile import api
from nbcompile.views import html, sections
from tests.views import sample_records as sample
from tests.views.test_figures import compiled
from tests.views.test_hosts import THEMES, violations

pytestmark = pytest.mark.browser

INSIDE = """
name => {
  const section = document.querySelector(`[data-s=${name}]`), at = document.activeElement;
  return { inside: section.contains(at), here: [...section.querySelectorAll("*")].indexOf(at), stop: at.matches("[data-n]") };
}
"""
STOPS = """
name => {
  const section = document.querySelector(`[data-s=${name}]`), every = [...section.querySelectorAll("*")];
  return [...section.querySelectorAll("summary, button, input, select, [tabindex='0']")]
    .filter(each => each.checkVisibility() && !each.disabled).map(each => every.indexOf(each));
}
"""
WALK = """
name => [...document.querySelectorAll(`[data-s=${name}] [data-n][tabindex='0']`)].map(start => {
  const pane = start.closest(".n-code,svg,tbody"), lines = [...pane.querySelectorAll("[data-n]")].filter(each => !each.parentElement.closest("[data-n]"));
  const press = key => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  start.focus();
  press("End");
  const last = document.activeElement === lines.at(-1);
  press("ArrowDown");
  const stays = document.activeElement === lines.at(-1);
  press("Home");
  const first = document.activeElement === lines[0];
  press("ArrowDown");
  const second = document.activeElement === (lines[1] ?? lines[0]);
  press("Enter");
  const selected = document.activeElement.ariaCurrent === "true" && document.activeElement.matches(".n-on");
  press("Escape");
  const left = document.querySelectorAll("[data-n].n-on").length;
  return { last, stays, first, second, selected, left };
})
"""


@pytest.mark.parametrize("name", [each for each in sections.SECTIONS if each != "summary"])
def test_a_view_by_keys_alone(browser_page, name):
    """Tab reaches its summary and each control, and leaves; Enter unfolds it; arrows walk each pane."""
    page = browser_page(html.render(compiled(), [name]))
    page.evaluate("name => { document.querySelector(`[data-s=${name}]`).open = false }", name)
    summary = page.locator(f"[data-s={name}] > summary").first
    for _ in range(12):
        page.keyboard.press("Tab")
        if summary.evaluate("each => each === document.activeElement"):
            break
    assert summary.evaluate("each => each === document.activeElement")
    page.keyboard.press("Enter")
    assert page.locator(f"[data-s={name}]").first.evaluate("each => each.open")

    wanted, met = set(page.evaluate(STOPS, name)), set()
    for _ in range(len(wanted) + 20):
        at = page.evaluate(INSIDE, name)
        if not at["inside"]:
            break
        met.add(at["here"])
        page.keyboard.press("Tab")
    assert wanted <= met

    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    for walked in page.evaluate(WALK, name):
        assert walked == {"last": True, "stays": True, "first": True, "second": True, "selected": True, "left": 0}


DOUBLED = "def doubled(x):\n    return x * 2\n"


@functools.cache
def two_sizes():
    """Two entries, with all instructions, of a function with fixed line numbers."""
    nbcompile.reset()
    scope = {}
    linecache.cache["cell.py"] = (len(DOUBLED), None, DOUBLED.splitlines(keepends=True), "cell.py")
    exec(compile(DOUBLED, "cell.py", "exec"), scope)
    function, frame_recorder = nbcompile.compile(scope["doubled"], backend="eager"), api.new_recorder("doubled")
    with frame_recorder.listening(), nbcompile.config.patch(record_steps=True):
        function(torch.ones(3))
        function(torch.ones(4))
    return frame_recorder.record()


RECORDS = {
    "predict": sample.save_break, "tree": sample.nested, "breaks": sample.save_break, "recompilations": sample.recompiled,
    "what_if": two_sizes, "steps": two_sizes, "residual": sample.mutating,
}  # fmt: skip
"""What a view is shown of; the others are of the simple record."""
SPOKEN = Path(__file__).parent / "snapshots"


@pytest.mark.parametrize("name", ["whole", *sections.SECTIONS])
def test_labels_for_screen_readers(browser_page, name):
    """The roles and names of an unfolded view equal the snapshot (UPDATE_SNAPSHOTS=1 writes it)."""
    record = RECORDS.get(name, sample.simple)()
    page = browser_page(html.render(record, None if name == "whole" else [name]))
    # The process state differs between machines.
    unfold = "each => { each.open = !each.textContent.startsWith('Classes, identities') }"
    page.evaluate(f"document.querySelectorAll('details').forEach({unfold})")
    told = page.locator(".nbc").aria_snapshot() + "\n"
    agreed = SPOKEN / f"{name}.aria.yaml"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        agreed.write_text(told)
    assert told == agreed.read_text()


@pytest.mark.parametrize("make", [sample.simple, sample.nested, sample.save_break])
def test_an_output_is_no_taller_than_forty_lines_for_a_frame(browser_page, make):
    """Initially only the source and the graph of the first frame are unfolded."""
    record = make()
    page = browser_page(html.render(record))
    frame = page.locator(".n-frame").first
    line = 13.5 * 1.55
    assert frame.bounding_box()["height"] <= 40 * line
    for other in page.locator(".n-frame").all()[1:]:
        assert other.bounding_box()["height"] <= 3 * line


@pytest.mark.slow
@pytest.mark.parametrize("name", sections.SECTIONS)
def test_axe_finds_nothing_in_a_view(browser_page, name):
    """axe finds no violation in any section, theme and width."""
    for theme in THEMES:
        for width in (400, 1280):
            options = {"forced_colors": "active"} if theme == "forced" else {}
            shown = browser_page(
                html.render(compiled(), [name]), width=width, theme="dark" if theme == "dark" else "light", **options
            )
            assert violations(shown) == [], (theme, width)
