"""``python -m nbcompile tour``: execute notebooks/tour.md, check its claims, write tour.html.

    notebooks/tour.md  ->  a kernel runs every cell  ->  tour.html
                                                     ->  ✓ GPT-2 is one graph (graphs=1, ...)

The command fails if a claim does not hold, or a cell raises another error; the
page is nevertheless written, under another name, and ends with the error.
Cells with the tag `needs-transformers` are left out where that module is not installed.

In torch: nothing. Read next: notebooks/tour.md
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jupytext
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from traitlets.config import Config

from nbcompile.tools.claims import CLAIM
from nbcompile.tools.commands import terminal
from nbcompile.tools.page import page

QUIET = ["--IPKernelApp.log_level=40"]  # a kernel warns that its sockets are not encrypted
NEEDS = "needs-"
PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Tour:
    """An executed notebook."""

    notebook: NotebookNode
    seconds: float
    error: str
    """"" if every cell ran to its end."""
    left_out: list[str]
    """Reasons for cells that were not run: a sentence for each module that is not installed."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return 0 if every claim holds."""
    parser = argparse.ArgumentParser(
        prog="python -m nbcompile tour", description="Execute the tour, check its claims, and write one HTML file."
    )
    parser.add_argument("notebook", nargs="?", type=Path, default=packaged(), help="another MyST notebook")
    parser.add_argument("-o", "--output", type=Path, default=Path("tour.html"), help="default: %(default)s")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON; progress goes to stderr")
    options = parser.parse_args(arguments)
    progress = sys.stderr if options.json else sys.stdout
    print(f"executing {_short(options.notebook)} ...", flush=True, file=progress)
    with terminal.waiting("tour"):
        tour = execute(options.notebook)
    checked = claims(tour.notebook)
    print("\n".join(checked + tour.left_out), file=progress)
    failed = options.output.with_suffix(".failed.html")
    failed.unlink(missing_ok=True)
    target = failed if tour.error else options.output
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page(tour.notebook), encoding="utf-8")
    if tour.error:
        print(f"✗ {tour.error}", file=sys.stderr)
    summary = f"{len(checked)} claims hold, {pictures(tour.notebook)} pictures, {tour.seconds:.0f} s"
    print(f"{summary}: {_short(target.absolute())} ({target.stat().st_size / 1024:.0f} KiB)", file=progress)
    if options.json:
        outcome = {
            "page": str(target.absolute()), "error": tour.error, "claims": checked, "left_out": tour.left_out,
            "pictures": pictures(tour.notebook), "seconds": round(tour.seconds, 1),
        }  # fmt: skip
        print(json.dumps(outcome))
    return 1 if tour.error or not checked else 0


def packaged() -> Path:
    """The tour's notebook: inside the package where a wheel was installed, next to it in a checkout."""
    installed = PACKAGE / "notebooks" / "tour.md"
    return installed if installed.exists() else PACKAGE.parent / "notebooks" / "tour.md"


def execute(source: Path, timeout: int = 900) -> Tour:
    """Run a MyST notebook in a separate kernel, in an empty folder."""
    notebook = jupytext.read(source, fmt="md:myst")
    left_out = leave_out(notebook)
    began = time.perf_counter()
    error = ""
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        try:
            run_cells(notebook, timeout=timeout, resources=resources)
        except CellExecutionError as failed:
            error = f"{failed.ename}: {failed.evalue}"
        except DeadKernelError:
            error = "the kernel ended: the interpreter crashed (its last output is above)"
    return Tour(notebook, time.perf_counter() - began, error, left_out)


def run_cells(notebook: NotebookNode, **options: Any) -> None:
    """Run a notebook's cells in a separate kernel; ``options`` are those of ``NotebookClient``.

    Jupyter chooses free ports, and the kernel binds them a second later: another process may have bound them, and then
    the kernel never responds. Unix sockets in a new folder have no such race; Windows does not have them.
    """
    with tempfile.TemporaryDirectory() as folder:
        sockets = {} if sys.platform == "win32" else {"transport": "ipc", "ip": str(Path(folder, "kernel"))}
        config = Config({"KernelManager": sockets})
        NotebookClient(notebook, kernel_name="python3", extra_arguments=QUIET, config=config, **options).execute()


def leave_out(notebook: NotebookNode) -> list[str]:
    """Replace each cell whose module is not installed by one sentence; return the sentences."""
    kept: list[NotebookNode] = []
    sentences: list[str] = []
    for cell in notebook.cells:
        absent = [module for module in _needs(cell) if importlib.util.find_spec(module) is None]
        if not absent:
            kept.append(cell)
            continue
        sentence = f"Left out: {absent[0]} is not installed (pip install {absent[0]})."
        if sentence not in sentences:
            sentences.append(sentence)
            kept.append(new_markdown_cell(sentence))
    notebook.cells = kept
    return sentences


def _needs(cell: NotebookNode) -> list[str]:
    return [tag.removeprefix(NEEDS) for tag in cell.metadata.get("tags", []) if tag.startswith(NEEDS)]


def claims(notebook: NotebookNode) -> list[str]:
    """Claims that were checked, in the order of the page."""
    return [
        output.data["text/plain"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if CLAIM in output.get("metadata", {})
    ]


def pictures(notebook: NotebookNode) -> int:
    """Number of rich outputs."""
    return sum("text/html" in output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", []))


def _short(path: Path) -> str:
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


if __name__ == "__main__":
    sys.exit(main())
