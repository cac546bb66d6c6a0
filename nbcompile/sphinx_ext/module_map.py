"""A table of all modules, generated from the first lines of their docstrings.

    ```{module-map}        nbcompile/capture/source.py | Where a traced value came from. | torch/_dynamo/source.py
    ```

The rows are always up to date: each is the docstring's first sentence and its ``In torch:`` line, which
tests/test_house.py checks.

In torch: nothing. Read next: CONTRIBUTING.md
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Row:
    """One module."""

    file: str
    idea: str
    in_torch: str


def rows(package: Path = PACKAGE) -> Iterator[Row]:
    """Rows of all modules with a docstring, in the order of the tree."""
    for path in sorted(package.rglob("*.py")):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        if text:
            idea = re.sub(r"\s+", " ", text.split("\n\n")[0])
            yield Row(str(path.relative_to(package.parent)), idea, _in_torch(text))


def _in_torch(docstring: str) -> str:
    """Text between ``In torch:`` and ``Read next``, on one line."""
    found = re.search(r"In torch:\s*(.*?)(?:[.;]?\s*[Rr]ead next\b|\n\n|\Z)", docstring, re.DOTALL)
    return re.sub(r"\s+", " ", found[1]).strip() if found else ""


class ModuleMap(SphinxDirective):
    """``{module-map}``: the table."""

    def run(self) -> list[nodes.Node]:
        """Build the table; pages that show it depend on every module."""
        for path in PACKAGE.rglob("*.py"):
            self.env.note_dependency(str(path))
        body = nodes.tbody()
        for row in rows():
            body += _table_row(nodes.literal(text=row.file), *_inline(row.idea), None, *_inline(row.in_torch))
        group = nodes.tgroup(cols=3)
        group += [nodes.colspec(colwidth=width) for width in (3, 5, 3)]
        head = nodes.thead()
        head += _table_row(nodes.Text("module"), nodes.Text("its idea"), None, nodes.Text("in torch"))
        group += [head, body]
        table = nodes.table(classes=["module-map"])
        table += group
        return [table]


def _table_row(first: nodes.Node, *rest: nodes.Node | None) -> nodes.row:
    # A None separates the second cell from the third.
    middle = rest.index(None)
    cells = ([first], rest[:middle], rest[middle + 1 :])
    row = nodes.row()
    for content in cells:
        paragraph = nodes.paragraph()
        paragraph += list(content)
        entry = nodes.entry()
        entry += paragraph
        row += entry
    return row


def _inline(text: str) -> list[nodes.Node]:
    """Text with ``code`` in it."""
    parts = re.split(r"``(.*?)``", text)
    return [nodes.literal(text=part) if index % 2 else nodes.Text(part) for index, part in enumerate(parts) if part]
