"""Slides of a lecture: an executed MyST notebook as a deck of reveal.js, and as a page for print.

    python -m nbcompile.tools.slides notebooks/course/3_breaks.md -o build/slides --reveal reveal.js

A heading begins a slide; a cell with a picture is a slide below it; set-up and claims stay in the notebook. The deck
loads reveal.js from ``--reveal``, a folder beside it (`make slides` fetches one), and nothing else.

In torch: nothing. Read next: nbcompile/tools/tour.py
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import jinja2
from nbconvert.exporters import SlidesExporter
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from nbcompile.tools import tour
from nbcompile.tools.page import page

TEMPLATE = """{% extends 'reveal/index.html.j2' %}
{% block html_head_js %}{% endblock %}
{% block html_head_js_mathjax %}{% endblock %}
{% block html_head_css %}<style>
.reveal { font-size: 26px } .reveal pre, .reveal code { font-size: 20px } .reveal h1 { font-size: 1.9em }
.reveal h2 { font-size: 1.5em } .reveal .slides section { text-align: left; max-height: 100%; overflow: auto }
.reveal .nbc, .reveal .nbc table, .reveal .nbc pre { font-size: 20px; max-width: 100% }
.reveal table { font-size: 20px }
.jp-InputPrompt, .jp-OutputPrompt { display: none !important }
</style>{% endblock %}
{% block footer_js %}<script src="{{ reveal_url_prefix }}/dist/reveal.js"></script>
<script>Reveal.initialize({ controls: true, progress: true, hash: true, slideNumber: "c/t", transition: "none",
  width: 1280, height: 800, center: false });</script>{% endblock %}
"""
"""reveal.js without jQuery, RequireJS and MathJax, which nbconvert's own template fetches; large type."""


def as_slides(notebook: NotebookNode) -> NotebookNode:
    """The notebook with a slide for each heading, and one below for each picture."""
    cells: list[NotebookNode] = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for part in re.split(r"^(?=##? )", cell.source, flags=re.MULTILINE):
                if part.strip():
                    is_heading = part.startswith("#")
                    cells.append(_typed(new_markdown_cell(part), "slide" if is_heading else "fragment"))
        elif cell.cell_type == "code":
            cells.append(_typed(cell, "subslide" if _has_picture(cell) else "skip"))
    made = NotebookNode(notebook)
    made.cells = cells
    return made


def _typed(cell: NotebookNode, kind: str) -> NotebookNode:
    cell.metadata = {**cell.metadata, "slideshow": {"slide_type": kind}}
    return cell


def _has_picture(cell: NotebookNode) -> bool:
    kinds = {kind for output in cell.get("outputs", []) for kind in output.get("data", {})}
    return bool(kinds & {"text/html", "text/markdown"})


def deck(notebook: NotebookNode, title: str, reveal: str) -> str:
    """The deck as HTML."""
    exporter = SlidesExporter(extra_loaders=[jinja2.DictLoader({"slides.html.j2": TEMPLATE})])
    exporter.template_file, exporter.reveal_url_prefix = "slides.html.j2", reveal
    notebook.metadata["title"] = title
    text, _ = exporter.from_notebook_node(as_slides(notebook))
    return text


def main(arguments: list[str] | None = None) -> int:
    """The command; 0 if every lecture ran to its end."""
    parser = argparse.ArgumentParser(description="Execute lectures; write each as slides, and as a page for print.")
    parser.add_argument("lectures", nargs="+", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("build/slides"), help="default: %(default)s")
    parser.add_argument("--reveal", default="reveal.js", help="a copy of reveal.js, seen from the output folder")
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    failed = False
    for lecture in options.lectures:
        executed = tour.execute(lecture)
        if executed.error:
            print(f"✗ {lecture}: {executed.error}", file=sys.stderr)
            failed = True
            continue
        printed, slides = (options.output / f"{lecture.stem}.{kind}.html" for kind in ("print", "slides"))
        printed.write_text(page(executed.notebook), encoding="utf-8")
        slides.write_text(deck(executed.notebook, lecture.stem, options.reveal), encoding="utf-8")
        print(f"{slides}\n{printed}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
