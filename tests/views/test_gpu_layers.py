"""Seven layers of a program for a GPU, linked: source, graph, loops, schedule, Triton, PTX and SASS."""

from __future__ import annotations

import pytest

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

from nbcompile.views import html
from tests.views import pictures
from tests.views.paper import letters, text_of
from tests.views.test_hosts import SAID, violations

pytestmark = pytest.mark.browser

LIT = """
mark => {
  const root = document.querySelector(".nbc"), lit = root.querySelectorAll(`.${mark}`);
  const inside = what => [...lit].some(each => each.closest(what));
  const line = layer => [...lit].some(each => [...each.querySelectorAll(".n-lines small")].some(small => small.textContent === layer));
  return Object.entries({
    source: inside(".n-src"), graph: inside("svg"), loops: inside(".n-ir"),
    schedule: [...lit].some(each => each.closest("table")?.caption.textContent.startsWith("Which buffers share")),
    Triton: [...lit].some(each => each.closest("[data-s=kernels] .n-code") && !each.matches(".r")),
    PTX: line("PTX"), SASS: line("SASS"),
  }).filter(([, seen]) => seen).map(([name]) => name);
}
"""
SEVEN = ["source", "graph", "loops", "schedule", "Triton", "PTX", "SASS"]
PLACES = {
    "source": ".n-src [data-n]:has-text('torch.relu(x @ w)')",
    "graph": "svg [data-n]:has-text('relu')",
    "loops": ".n-ir tr:has-text('buf6')",
    "schedule": "tr:has-text('buf2 reads buf1 where it is computed')",
    "Triton": "[data-s=kernels] .n-code [data-n]:has-text('= nan_maximum')",
    "PTX and SASS": ".n-lines tr:has-text('= nan_maximum')",
}
"""An element of each layer that is there for relu, at least."""


@pytest.fixture(scope="module")
def record():
    return pictures.for_a_gpu()


@pytest.fixture
def shown(record, browser_page):
    """The page, unfolded."""
    page = browser_page(html.render(record, pictures.SHOWN))
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    return page


@pytest.mark.parametrize("layer", PLACES)
def test_what_is_pointed_at_or_selected_lights_all_seven(shown, layer):
    """In each layer, an element below the mouse lights up all layers, and a click selects it."""
    place = shown.locator(PLACES[layer]).last
    place.hover()
    assert shown.evaluate(LIT, "n-hi") == SEVEN
    place.click()
    assert shown.evaluate(LIT, "n-on") == SEVEN
    shown.mouse.move(0, 0)
    assert shown.evaluate(LIT, "n-hi") == []
    assert shown.evaluate(LIT, "n-on") == SEVEN


@pytest.mark.parametrize("layer", PLACES)
def test_keys_select_in_each_layer(shown, layer):
    """Each pane is one tab stop; arrows move, Enter selects, and a lit element is marked for screen readers."""
    place = shown.locator(PLACES[layer]).last
    stop = place.locator("xpath=ancestor-or-self::*[self::pre or self::tbody or name()='svg']").first
    stop.locator("[data-n][tabindex='0']").first.focus()
    is_there = "each => each === document.activeElement"
    for _ in range(60):
        if place.evaluate(is_there):
            break
        shown.keyboard.press("ArrowRight")
    assert place.evaluate(is_there)
    shown.keyboard.press("Enter")
    assert shown.evaluate(LIT, "n-on") == SEVEN
    assert shown.locator("[aria-current=true]").count() == shown.locator(".n-on").count()
    assert "graph node" in shown.locator("[role=status]").inner_text()
    shown.keyboard.press("Escape")
    assert shown.evaluate(LIT, "n-on") == []


@pytest.mark.parametrize("scripts", [True, False])
def test_paper_has_all_seven(record, browser_page, scripts):
    """The PDF has each word, folded or not, and light pictures, also for a dark theme."""
    page = browser_page(html.render(record, pictures.SHOWN), theme="dark", java_script_enabled=scripts)
    printed, said = text_of(page.pdf()), page.evaluate(SAID)
    assert [words for words in said if letters(words) not in printed] == []
    assert "blocksof128threads" in printed
    assert "LDG.E" in printed


@pytest.mark.parametrize(
    "look", [look if look == "dark.400" else pytest.param(look, marks=pytest.mark.slow) for look in pictures.LOOKS]
)
def test_axe_finds_nothing(record, browser_page, look):
    """axe finds no violation of WCAG 2.2 AA, in light and dark, wide and narrow."""
    theme, width, _ = pictures.LOOKS[look]
    assert violations(browser_page(html.render(record, pictures.SHOWN), theme=theme, width=width)) == []


def test_every_picture_of_the_command_is_there(record, browser_page):
    """Each part that ``python -m tests.views.pictures`` draws is on its page, and visible."""
    page = browser_page(html.render(record, pictures.SHOWN))
    pictures.unfold(page)
    for name in pictures.PARTS:
        assert pictures.part(page, name).is_visible(), name


def test_kernels_stand_in_the_order_in_which_they_run(record):
    """Kernels are in execution order, calls of ATen by their number in the wrapper included."""
    page = html.render(record, ("kernels",))
    at = [
        page.index(f"<b>{name}") for name in ("aten.mm", "triton_relu_mul_softmax", "triton_relu_mul_sum", "triton_sum")
    ]
    assert at == sorted(at)
