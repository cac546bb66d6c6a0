"""A page for each kind of graph break, and their index, written when a build begins.

    nbcompile/tools/explain.py: the page of NB0005   ->   docs/graph_breaks/nb0005.md

In torch: the site of https://meta-pytorch.github.io/compile-graph-break-site.
Read next: nbcompile/tools/explain.py
"""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

from nbcompile.tools import explain

FOLDER = "graph_breaks"


def write_pages(app: Sphinx) -> None:
    """Write every page that changed, at the start of a build."""
    write(Path(app.srcdir) / "docs" / FOLDER)


def write(folder: Path) -> None:
    """Write the pages and their index into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    expected = {f"{kind.id.lower()}.md": explain.as_markdown(explain.page(kind.id)) for kind in explain.kinds()}
    for name, text in {**expected, "index.md": index()}.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def index() -> str:
    """The page that lists all kinds."""
    kinds = explain.kinds()
    rows = [f"| [{each.id}]({each.id.lower()}.md) | {each.gb_id} | {each.title} |" for each in kinds]
    pages = [f"{each.id} <{each.id.lower()}>" for each in kinds]
    return "\n".join([
        "# Graph breaks", "",
        "Every reason for which the compiler ends a graph, or leaves a function to Python. The title and the number",
        "that begins with GB are torch's, where the concept is torch's. `python -m nbcompile explain NB0005` prints a",
        "page of these in a terminal, `%compile_explain NB0005` shows it in a notebook.", "",
        "| kind | in torch | what happened |", "|---|---|---|", *rows, "",
        "```{toctree}", ":hidden:", "", *pages, "```", "",
    ])  # fmt: skip
