"""Self-contained HTML file of an executed notebook.

    cells, outputs  ->  <!doctype html> ... no link, no request, no script but the pictures' own

A content security policy of the page forbids network access, so a picture
that requested something would cause an error in the browser.

In torch: nothing. Read next: nbcompile/tools/tour.py
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from markdown_it import MarkdownIt
from markupsafe import Markup, escape
from nbformat import NotebookNode
from pygments import highlight
from pygments.formatters import HtmlFormatter

from nbcompile.tools.lexer import CompileCellLexer

STYLE = Path(__file__).parent / "static" / "page.css"
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"

_PAGE = Markup("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<nav aria-label="Contents"><ol>{contents}</ol></nav>
<main>
{cells}
</main>
</body>
</html>
""")


def page(notebook: NotebookNode) -> str:
    """The whole page."""
    cells = [_CELLS[cell.cell_type](cell) for cell in notebook.cells if "remove-cell" not in _tags(cell)]
    body = Markup("\n").join(cells)
    headings = re.findall(r'<h([12]) id="([^"]+)">(.*?)</h', body)
    contents = [
        Markup('<li><a href="#{}">{}</a>').format(name, Markup(text)) for level, name, text in headings if level == "2"
    ]
    title = next((Markup(text).striptags() for level, _, text in headings if level == "1"), "nbcompile")
    style = Markup(STYLE.read_text(encoding="utf-8"))
    return _PAGE.format(policy=Markup(POLICY), title=title, style=style, contents=Markup("").join(contents), cells=body)


def _tags(cell: NotebookNode) -> list[str]:
    return list(cell.metadata.get("tags", []))


def prose(source: str) -> Markup:
    """Markdown as HTML; headings have ids."""
    tokens = MarkdownIt("commonmark").enable("table")
    return Markup(re.sub(r"<h([1-6])>(.*?)</h\1>", _with_id, tokens.render(source)))


def _with_id(found: re.Match[str]) -> str:
    name = re.sub(r"\W+", "-", Markup(found[2]).striptags().lower()).strip("-")
    return f'<h{found[1]} id="{name}">{found[2]}</h{found[1]}>'


def _code(cell: NotebookNode) -> Markup:
    parts = [Markup('<section class="cell">')]
    if "remove-input" not in _tags(cell):
        parts.append(rendered_source(cell.source))
    if "remove-output" not in _tags(cell):
        parts += [rendered_output(output) for output in cell.get("outputs", [])]
    return Markup("\n").join([*parts, Markup("</section>")])


def rendered_source(source: str) -> Markup:
    """Code of a cell, highlighted."""
    return Markup(highlight(source, CompileCellLexer(), HtmlFormatter(cssclass="code", wrapcode=True)))


def rendered_output(output: NotebookNode) -> Markup:
    """One output of a cell."""
    return _OUTPUTS[output.output_type](output)


def _stream(output: NotebookNode) -> Markup:
    return Markup('<pre class="out {}">{}</pre>').format(output.name, output.text)


def _rich(output: NotebookNode) -> Markup:
    data = output.data
    if "text/html" in data:
        return Markup('<div class="out rich">{}</div>').format(Markup(data["text/html"]))
    if "text/markdown" in data:
        return Markup('<div class="out rich">{}</div>').format(prose(data["text/markdown"]))
    if "image/png" in data:
        return Markup('<img class="out" alt="" src="data:image/png;base64,{}">').format(data["image/png"])
    text = data.get("text/plain", "")
    return Markup('<pre class="out {}">{}</pre>').format("claim" if text.startswith("✓") else "value", text)


def _error(output: NotebookNode) -> Markup:
    # IPython colours tracebacks for terminals.
    text = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(output.traceback))
    return Markup('<pre class="out error">{}</pre>').format(escape(text))


_CELLS: dict[str, Callable[[NotebookNode], Markup]] = {
    "markdown": lambda cell: prose(cell.source),
    "code": _code,
    "raw": lambda _: Markup(""),
}
_OUTPUTS: dict[str, Callable[[NotebookNode], Markup]] = {
    "stream": _stream,
    "display_data": _rich,
    "execute_result": _rich,
    "error": _error,
}
