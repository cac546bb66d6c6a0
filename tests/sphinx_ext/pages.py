"""A page with one of our directives, read by Sphinx."""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, docutils_namespace


def read(folder: Path, text: str, **directives: type[SphinxDirective]) -> tuple[nodes.document, set[str]]:
    """The document, and the files on which it depends."""
    (folder / "conf.py").write_text("")
    (folder / "index.rst").write_text(f"A page\n======\n\n{text}\n")
    with docutils_namespace():
        app = Sphinx(folder, folder, folder / "out", folder / "trees", "dummy", status=None, warning=None)
        for name, directive in directives.items():
            app.add_directive(name, directive)
        app.build()
        document = app.env.get_doctree("index")
    return document, {Path(path).name for path in app.env.dependencies["index"]}


def cells(document: nodes.Node) -> list[list[str]]:
    """The texts of all table rows."""
    return [[entry.astext() for entry in row.findall(nodes.entry)] for row in document.findall(nodes.row)]
