"""The HTML in a real browser: no fetches, no errors; links and keys work, also if an output appears twice."""

from __future__ import annotations

import html as html_text
import json
import re
import shutil
import subprocess

import pytest

from nbcompile.views import html, report
from tests.views import sample_records as sample
from tests.views.conftest import POLICY

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH: apt-get install chromium"),
]

PROBE = """
const all = (root, selector) => [...root.querySelectorAll(selector)];
const root = document.querySelectorAll(".nbc")[1], frame = root.querySelector("[data-f]");
const names = name => all(frame, name).map(each => each.dataset.n);
const press = (node, key) => node.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
const seen = {};
const box = root.querySelector("svg rect").getBoundingClientRect();
seen.outputs = all(document, ".nbc[data-up]").length;
seen.tools = all(document, ".n-tools").length;
seen.drawings = all(document, "svg").length;
seen.visible = box.width > 20 && box.height > 20 && getComputedStyle(root.querySelector("svg rect")).fill !== "none";
seen.stops = all(frame, '.n-src [tabindex="0"]').length;
all(frame, ".n-src [data-n]")[0].click();
seen.selected = names("svg .n-on");
seen.kernel = names('[data-s="kernels"] pre .n-on');
seen.elsewhere = all(document.querySelector(".nbc"), ".n-on").length;
seen.status = root.querySelector("[role=status]").textContent;
seen.current = all(frame, '.n-src code > [aria-current="true"]').length;
press(all(frame, ".n-src [data-n]")[0], "ArrowDown");
seen.focused = document.activeElement.dataset.n;
press(document.activeElement, "Enter");
seen.entered = names("svg .n-on");
press(document.activeElement, "Escape");
seen.cleared = all(frame, ".n-on").length;
all(root, ".n-tools button")[0].click();
seen.folded = all(root, "details:not([open])").length;
const field = root.querySelector("input");
field.value = "TENSOR_MATCH";
field.dispatchEvent(new Event("input"));
seen.rows = all(root, "tbody tr:not([hidden])").length;
field.value = "";
field.dispatchEvent(new Event("input"));
all(root, ".n-tools button")[1].click();
seen.usual = all(root, "details[open]").length === all(document.querySelector(".nbc"), "details[open]").length;
seen.ids = all(document, ".nbc [id]").length;
seen.overflow = document.documentElement.scrollWidth > innerWidth;
seen.dark = getComputedStyle(root).backgroundColor;
document.documentElement.dataset.theme = "light";
seen.light = getComputedStyle(root).backgroundColor;
const result = document.createElement("pre");
result.id = "seen";
result.textContent = JSON.stringify({ ...seen, violations });
document.body.append(result);
"""


def browse(page, tmp_path, width=1200):
    """The page after its scripts ran, and the browser's complaints."""
    path = tmp_path / "page.html"
    path.write_text(page, encoding="utf-8")
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
        "--enable-logging=stderr", f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900",
        "--dump-dom", path.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def probed(fragment, tmp_path, width=1200):
    page = (
        f'<!doctype html><html data-theme="dark"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<script>const violations = [];"
        f'addEventListener("securitypolicyviolation", event => violations.push(event.blockedURI));'
        f"</script></head><body>{fragment}\n{fragment}<script>{PROBE}</script></body></html>"
    )
    dom, complaints = browse(page, tmp_path, width)
    assert complaints == []
    return json.loads(html_text.unescape(re.search(r'<pre id="seen">(.*?)</pre>', dom, re.DOTALL)[1]))


KERNEL = ["n0..5", "n0..5", "n1..5", "n1..5", "n1 n4", "n1..5", "n1..5", "n1..5", "n0..5"]
"""The operators of each highlighted line of the kernel: all lines of a fused loop that n1 or n2 is a part of."""


def test_an_output_that_is_shown_twice_works_twice(tmp_path):
    """Drawings open, lines link to nodes and kernel lines, keys and the filter work in both copies."""
    seen = probed(html.render(sample.simple()), tmp_path)
    dark, light = seen.pop("dark"), seen.pop("light")
    assert seen == {
        "outputs": 2, "tools": 2, "drawings": 2, "visible": True, "stops": 1,
        "selected": ["n1", "n2"], "kernel": KERNEL, "elsewhere": 0,
        "status": "1 source line · 2 instructions · 2 graph nodes · 1 buffer · 2 kernel lines", "current": 1,
        "focused": "n3 n4", "entered": ["n3", "n4"], "cleared": 0, "folded": 0, "rows": 1, "usual": True,
        "ids": 0, "overflow": False, "violations": [],
    }  # fmt: skip
    assert dark != light, "a switch of the host's theme repaints without a script"


def test_a_narrow_page_does_not_scroll_sideways(tmp_path):
    """At 500 px (a side panel, or 200 % zoom) only wide code scrolls sideways, in its pane."""
    assert probed(html.render(sample.simple()), tmp_path, width=500)["overflow"] is False


@pytest.mark.parametrize("name", sample.ALL)
def test_every_record_is_shown_without_complaint(name, tmp_path):
    """No record causes a script error, and each has as many drawings as graphs."""
    record = sample.ALL[name]()
    dom, complaints = browse(f"<!doctype html><meta charset=utf-8>{html.render(record)}", tmp_path)
    assert complaints == []
    assert dom.count("<svg") == sum((frame.graph or frame.unfinished) is not None for frame in record.frames)
    assert dom.count('data-up="1"') == 1


def test_deep_links_into_a_report(chromium, tmp_path):
    """A URL opens its frame and section, with or without scripts; a selected node is part of the URL."""
    path = tmp_path / "report.html"
    path.write_text(report.of_record(sample.recompiled()), encoding="utf-8")
    for scripts in (True, False):
        page = chromium.new_context(java_script_enabled=scripts).new_page()
        page.goto(f"{path.as_uri()}#s0-0.1-guards")
        assert page.locator("details[id='s0-0.1-guards'] > summary").is_visible()
    page = chromium.new_page()
    page.goto(path.as_uri())
    page.locator("nav a", has_text="0/1").click()
    node = page.locator("[id='s0-0.1'] .n-src [data-n]").first
    node.click()
    address = page.url
    assert address.endswith(f"#s0-0.1~{node.get_attribute('data-n')}".replace(" ", "%20"))
    again = chromium.new_page()
    again.goto(address)
    assert again.locator("[id='s0-0.1'] .n-src code > .n-on").count() == 1
