"""A real JupyterLab on loopback: untrusted, run, run again, interrupted, restarted. Other hosts are emulated."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import nbformat
import pytest

from tests.views.conftest import chromium  # noqa: F401  (a fixture)

# Searched for and not imported: that takes seconds of every run, and these tests are in the sweep.
NO_LAB = pytest.mark.skipif(
    find_spec("jupyterlab") is None, reason="JupyterLab is not installed: pip install jupyterlab"
)
pytestmark = [pytest.mark.browser, pytest.mark.slow, NO_LAB]

CELLS = [
    (
        "%load_ext nbcompile\nimport time, torch\nfrom nbcompile import backends\npatience = [60]\n"
        "def slow(graph, inputs):\n    time.sleep(sum(patience))\n    return graph\nbackends.register(slow, name='slow')"
    ),
    "%%compile --backend eager\ndef f(x):\n    return torch.sin(x) * 2 + 1\nf(torch.ones(3))",
    "%%compile --backend slow\ndef g(x):\n    return x.cos()\ng(torch.ones(3))",
    "patience.clear()\ng(torch.zeros(2))",
    "%%compile -q -o seen --backend eager\ndef h(x):\n    return x * 2\nh(torch.ones(3)), h(torch.ones(4))",
    "from nbcompile.jupyter.widget import LiveWhatIf\nlive = LiveWhatIf(seen.record, h)\nlive",
    "live.find_entry(torch.ones(9))",
    "live.find_entry(torch.ones(9, 2))",
]


def saved(cells):
    """An untrusted notebook with an output."""
    from nbcompile.views import mimebundle
    from tests.views import sample_records as sample

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.cells[1].execution_count = 1
    notebook.cells[1].outputs = [nbformat.v4.new_output("display_data", data=mimebundle(sample.simple()))]
    return nbformat.writes(notebook)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of a server whose settings, runtime and signatures are in a temporary folder."""
    folder = tmp_path_factory.mktemp("lab")
    (folder / "work").mkdir()
    (folder / "work" / "theirs.ipynb").write_text(saved(CELLS))
    own = {f"JUPYTER_{each}_DIR": str(folder / each.lower()) for each in ("CONFIG", "DATA", "RUNTIME")}
    options = [
        "--no-browser", "--ip=127.0.0.1", "--port=0", "--IdentityProvider.token=", "--allow-root",
        "--expose-app-in-browser", f"--ServerApp.root_dir={folder / 'work'}", f"--LabApp.user_settings_dir={folder / 'settings'}",
        f"--LabApp.workspaces_dir={folder / 'workspaces'}", "--LabApp.news_url=", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]  # fmt: skip
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *options],
            env=os.environ | own,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield _address(process, folder)
    finally:
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


def _address(process, folder):
    for _ in range(120):
        for told in (folder / "runtime").glob("jpserver-*.json"):
            return json.loads(told.read_text())["url"]
        assert process.poll() is None, (folder / "log").read_text()[-2000:]
        time.sleep(0.5)
    raise TimeoutError((folder / "log").read_text()[-2000:])


class Lab:
    """A notebook that is open in the Lab."""

    def __init__(self, page):
        self.page = page

    def do(self, command):
        """Run a command of the Lab, as its menus do."""
        self.page.evaluate("name => { window.jupyterapp.commands.execute(name) }", command)

    def at(self, cell):
        """Select the cell for the next commands."""
        self.page.evaluate("n => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = n }", cell)

    def output(self, cell):
        return self.page.locator(".jp-Notebook .jp-CodeCell").nth(cell).locator(".jp-OutputArea-output")

    def prompt(self, cell):
        return self.page.evaluate("n => window.jupyterapp.shell.currentWidget.content.widgets[n].prompt", cell)

    def run(self, cell):
        """Run one cell, to its end."""
        self.at(cell)
        self.do("notebook:run-cell")
        self.wait(cell)

    def wait(self, cell):
        self.page.wait_for_function(
            "n => { const p = window.jupyterapp.shell.currentWidget.content.widgets[n].prompt; return p && p !== '*' }",
            arg=cell,
            timeout=60_000,
        )


@pytest.fixture(scope="module")
def lab(server, chromium):  # noqa: F811
    """The open notebook; it fetches only from the server."""
    context = chromium.new_context(viewport={"width": 1400, "height": 1200})
    page, elsewhere = context.new_page(), []
    page.on(
        "request",
        lambda request: (
            elsewhere.append(request.url) if not request.url.startswith((server, "data:", "blob:")) else None
        ),
    )
    page.goto(f"{server}lab/tree/theirs.ipynb?reset")
    page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=60_000)
    page.wait_for_function("window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel", timeout=60_000)
    yield Lab(page)
    context.close()
    assert elsewhere == []


def alive(output):
    """True if a view is set up, drawn, and answers a click."""
    view = output.locator(".nbc:visible")
    assert view.count() == 1
    assert view.get_attribute("data-up") == "1"
    assert view.locator("svg g").count() > 0
    line = view.locator(".n-src [data-n]").first
    line.click()
    lit = view.locator("svg .n-on").count()
    line.click()
    return lit > 0


def test_untrusted(lab):
    """The Lab strips styles and scripts of an untrusted notebook, and everything is legible."""
    output = lab.output(1)
    assert output.locator(".nbc").get_attribute("data-up") is None
    assert output.locator("svg, style, script").count() == 0
    assert output.locator("img").count() == 1
    text = output.evaluate(
        "each => { each.querySelectorAll('details').forEach(d => { d.open = true }); return each.innerText }"
    )
    for word in ("torch.sin(x) * scale", "TENSOR_MATCH", "kernel0", "graph_out_0"):
        assert word in text


def test_run(lab):
    """After a run, the view works in the colours of the Lab's theme."""
    lab.run(0)
    lab.run(1)
    assert alive(lab.output(1))
    ground = "each => getComputedStyle(each).backgroundColor"
    before = lab.page.locator(".nbc").first.evaluate(ground)
    lab.page.evaluate("window.jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Dark' })")
    lab.page.wait_for_selector("body[data-jp-theme-light=false]", state="attached")
    assert lab.page.locator(".nbc").first.evaluate(ground) != before


def test_run_again(lab):
    """The new view replaces the old one, and works."""
    lab.run(1)
    assert alive(lab.output(1))


def test_interrupt(lab):
    """A long compilation shows its phase; after an interrupt the cell ends, and its function works."""
    lab.at(2)
    lab.do("notebook:run-cell")
    lab.output(2).get_by_text("nbcompile: ").first.wait_for(timeout=30_000)
    assert "g, " in lab.output(2).first.inner_text()
    lab.do("notebook:interrupt-kernel")
    lab.wait(2)
    assert "KeyboardInterrupt" in "".join(lab.output(2).all_inner_texts())
    assert "interrupted" in "".join(lab.output(2).all_inner_texts())
    lab.run(3)
    assert "tensor([1., 1.])" in lab.output(3).first.inner_text()


def test_restart(lab):
    """After a restart the old views still work, and cells run as in a new session."""
    lab.do("notebook:restart-kernel")
    lab.page.locator(".jp-Dialog .jp-mod-accept").click()
    lab.page.wait_for_function(
        "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'idle'", timeout=60_000
    )
    assert alive(lab.output(1))
    lab.run(0)
    lab.run(1)
    assert alive(lab.output(1))


def test_the_widget(lab):
    """In the Lab the live form follows the kernel's calls, and has the verdict of the kernel's guards."""
    pytest.importorskip("anywidget", reason="anywidget is not installed: pip install nbcompile[widget]")
    lab.run(4)
    lab.run(5)
    form = lab.output(5).locator(".nbc[data-up]")
    form.wait_for(timeout=30_000)
    lab.run(6)
    assert lab.output(6).first.inner_text().strip() == "'1/1'"
    form.get_by_text("The kernel's own guards: 1/1 accepts.").wait_for()
    assert form.locator(".n-callout").inner_text().startswith("Hit: 1/1 runs.")
    assert "9" in form.locator("input").evaluate_all("all => all.map(each => each.value)")
    lab.run(7)
    form.get_by_text("The kernel's own guards: no entry accepts.").wait_for()
    assert form.locator(".n-callout").inner_text().startswith("Recompile.")
