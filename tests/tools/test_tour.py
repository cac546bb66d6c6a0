"""The tour: executed from an empty state, and opened in a browser."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from nbcompile.tools import tour
from tests.support.processes import command

ROOT = Path(__file__).parents[2]
HEADER = "---\nfile_format: mystnb\nkernelspec:\n  name: python3\n  display_name: Python 3\n---\n"


def written(folder: Path, *cells: str) -> Path:
    path = folder / "small.md"
    path.write_text(HEADER + "".join(f"\n```{{code-cell}}\n{cell}\n```\n" for cell in cells))
    return path


def test_a_small_tour(tmp_path, capsys):
    """Each claim is printed, with the path of the page; the command succeeds."""
    source = written(tmp_path, "from nbcompile.tools.claims import claim", "claim('one is one', 1 == 1, one=1)")
    assert tour.main([str(source), "-o", str(tmp_path / "small.html")]) == 0
    told = capsys.readouterr().out
    assert "✓ one is one (one=1)" in told
    assert "1 claims hold" in told
    assert "✓ one is one (one=1)" in (tmp_path / "small.html").read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no sockets that are files")
def test_kernels_take_no_ports():
    """A kernel's sockets are files in a temporary folder, so that no other process can take its ports."""
    cell = new_code_cell(
        "from ipykernel.kernelapp import IPKernelApp\nprint(IPKernelApp.instance().transport, IPKernelApp.instance().ip)"
    )
    notebook = new_notebook(cells=[cell])
    tour.run_cells(notebook, timeout=60)
    transport, base = notebook.cells[0].outputs[0].text.split()
    assert transport == "ipc"
    assert not Path(base).parent.exists()


def test_a_tour_as_json(tmp_path, capsys):
    """--json prints only the outcome; progress is on stderr."""
    source = written(tmp_path, "from nbcompile.tools.claims import claim", "claim('one is one', 1 == 1)")
    assert tour.main([str(source), "-o", str(tmp_path / "small.html"), "--json"]) == 0
    printed = capsys.readouterr()
    outcome = json.loads(printed.out)
    assert outcome["error"] == ""
    assert outcome["claims"] == ["✓ one is one"]
    assert "executing" in printed.err


@pytest.mark.parametrize("cell", ["claim('one is two', 1 == 2)", "1 / 0", "def f(:"])
def test_a_failing_tour(tmp_path, capsys, cell):
    """A false claim, or an error, fails the command; the page has another name, and the error."""
    source = written(
        tmp_path, "from nbcompile.tools.claims import claim", "claim('first', True)", cell, "claim('never', True)"
    )
    assert tour.main([str(source), "-o", str(tmp_path / "small.html")]) == 1
    told = capsys.readouterr()
    assert "✓ first" in told.out
    assert "never" not in told.out
    assert "✗" in told.err
    assert not (tmp_path / "small.html").exists()
    assert 'class="out error"' in (tmp_path / "small.failed.html").read_text()


def test_a_tour_without_claims_fails(tmp_path):
    """A page without a claim fails."""
    assert tour.main([str(written(tmp_path, "1")), "-o", str(tmp_path / "small.html")]) == 1


def test_cells_that_need_what_is_absent(tmp_path, capsys):
    """A sentence replaces the cells that need a missing module; the others run."""
    needs = ":tags: [needs-no_such_module]\n\n"
    source = written(
        tmp_path,
        "from nbcompile.tools.claims import claim",
        needs + "import no_such_module",
        needs + "no_such_module.f()",
        ":tags: [needs-json]\n\nclaim('this one is there', True)",
    )
    assert tour.main([str(source), "-o", str(tmp_path / "small.html")]) == 0
    sentence = "Left out: no_such_module is not installed (pip install no_such_module)."
    printed = capsys.readouterr().out
    assert "✓ this one is there" in printed
    assert printed.count(sentence) == 1
    assert (tmp_path / "small.html").read_text().count(sentence) == 1


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, str]:
    """The real tour, and the output of its command."""
    target = tmp_path_factory.mktemp("tour") / "tour.html"
    return target, command(sys.executable, "-m", "nbcompile", "tour", "-o", target, folder=ROOT).stdout


def test_the_summary(built):
    """The command prints the tour's claims, all of which hold."""
    told = built[1]
    for says in (
        "GPT-2 is one graph (graphs=1",
        "its logits are eager's",
        "the loss goes down",
        "the backward graph is compiled",
        "torch.save breaks the graph in two",
        "one nested break make six compiled frames",
        "three shapes need two versions",
        "the chain is one C++ kernel",
    ):
        assert "✓" in told
        assert says in told


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_in_a_browser(built, chromium, scheme):
    """The tour opens without a console error or a network request; its graphs are visible."""
    page = chromium.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900}).new_page()
    errors, asked = [], []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type in ("error", "warning") else None)
    page.on("request", lambda request: asked.append(request.url))
    page.goto(built[0].as_uri())
    page.wait_for_load_state("load")
    assert errors == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    drawn = page.locator("main img[src^='data:image/svg+xml'], main svg")
    assert drawn.count() >= 2  # the first function and GPT-2
    visible = [each.bounding_box() for each in drawn.all() if each.is_visible()]
    assert any(box and box["width"] > 50 and box["height"] > 50 for box in visible)
    text = page.locator("main").inner_text()
    for word in ("✓ GPT-2 is one graph", "inner2", "expected", "for ("):
        assert word in text
    paper, ink = page.evaluate(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    )
    assert (brightness(paper) > brightness(ink)) == (scheme == "light")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def brightness(colour: str) -> float:
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3]))


def test_the_page_is_self_contained(built):
    """The page is one file without network addresses that a browser would fetch."""
    text = built[0].read_text()
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", text)
    assert "@import" not in text
    assert not re.search(r"url\(\s*['\"]?(?!#|data:)", text)
