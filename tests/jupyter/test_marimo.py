"""A real marimo: outputs are legible, and widgets work. Needs marimo, which no other test needs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.request

import pytest

pytest.importorskip("marimo", reason="marimo is not installed: pip install marimo")
pytest.importorskip("anywidget", reason="anywidget is not installed: pip install nbcompile[widget]")
from tests.views.conftest import chromium  # noqa: E402, F401  (a fixture)

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NOTEBOOK = """
# /// script
# [tool.marimo.display]
# theme = "dark"
# ///
import marimo

app = marimo.App()


@app.cell
def _():
    import torch
    import nbcompile
    from nbcompile.jupyter.widget import LiveWhatIf, View
    from nbcompile.views import Still
    return LiveWhatIf, Still, View, nbcompile, torch


@app.cell
def _(nbcompile, torch):
    def scaled(x, k):
        return x * k + x.shape[0]

    fast = nbcompile.compile(scaled, backend="eager")
    fast(torch.ones(3), 2)
    seen = nbcompile.explain(fast)(torch.ones(5), 2)
    seen
    return fast, seen


@app.cell
def _(Still, seen):
    Still(seen.record)
    return


@app.cell
def _(View, seen):
    View(seen, ["source", "graph"])
    return


@app.cell
def _(LiveWhatIf, fast, seen):
    LiveWhatIf(seen.record, fast)
    return


if __name__ == "__main__":
    app.run()
"""

FOUND = """
() => {
  const found = [];
  const walk = root => {
    for (const each of root.querySelectorAll("*")) {
      if (each.matches(".nbc")) found.push([each.dataset.up ?? "", getComputedStyle(each).backgroundColor, each.textContent]);
      if (each.shadowRoot) walk(each.shadowRoot);
    }
  };
  walk(document);
  return found;
}
"""
LIVE = ["1", "", "1", "1"]
"""Whether the script of each output ran: what `explain` returned, the same without widgets, two widgets."""


@pytest.fixture
def address(tmp_path):
    """The address of the notebook on this machine."""
    path = tmp_path / "notebook.py"
    path.write_text(NOTEBOOK.lstrip())
    command = [
        sys.executable,
        "-m",
        "marimo",
        "run",
        path,
        "--headless",
        "--no-token",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
    ]
    log = tmp_path / "log"
    with log.open("w") as out:
        server = subprocess.Popen(
            command, stdout=out, stderr=out, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        )
    try:
        for _ in range(240):
            if found := re.search(r"http://\S+?:\d+", log.read_text()):
                urllib.request.urlopen(found[0], timeout=30).close()
                yield found[0]
                return
            time.sleep(0.5)
        pytest.fail(log.read_text()[-2000:])
    finally:
        server.terminate()
        server.wait(30)


def test_outputs_are_legible_and_widgets_live(address, chromium):  # noqa: F811
    """`explain`'s result is a live widget; without widgets it has its styles, marimo's theme, and all its texts."""
    page = chromium.new_page(viewport={"width": 1100, "height": 3000}, color_scheme="light")
    complaints = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(address)
    for _ in range(120):
        found = page.evaluate(FOUND)
        if [each[0] for each in found] == LIVE:
            break
        page.wait_for_timeout(500)
    assert [each[0] for each in found] == LIVE
    assert {each[1] for each in found} == {"rgb(21, 24, 30)"}, "marimo's theme is dark, the browser's light"
    assert all("size of tensor 'x', dimension 0" in each[2] for each in found[:2])
    assert "Hit: " in found[3][2]
    assert complaints == []
