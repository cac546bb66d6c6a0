"""The table of the book and the course: torch's contents, our pages, and the numbers of executed cells, views and
claims on each.

    | Dynamo core concepts | docs/core_concepts.md | cells 9 | pictures 7 | claims 4 | predictions 1 |

In torch: nothing. Read next: tests/docs/test_course.py, which checks the numbers of each page
"""

from __future__ import annotations

import os
import re
from dataclasses import astuple, dataclass
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from nbcompile.sphinx_ext.tables import table

ROOT = Path(__file__).parents[2]
BOOK = {
    "Dynamo core concepts": "core_concepts",
    "Working with graph breaks": "graph_breaks_index",
    "fullgraph=True: three strategies": "fullgraph_true",
    "Common graph breaks": "common_graph_breaks",
    "nonstrict_trace": "nonstrict_trace",
    "Custom operators": "custom_ops",
    "Working with fullgraph=False": "fullgraph_false",
    "Where to apply compile": "where_to_apply_compile",
    "Disabling and suppressing errors": "compiler_disable",
    "Nested graph breaks": "nested_graph_breaks",
    "Skipped functions": "skipped_functions",
    "The non-strict tracing model": "non_strict_tracing_model",
    "Dealing with recompilations": "recompilation",
    "Dynamic shapes": "dynamic_shapes",
    "Observability: tlparse, TORCH_LOGS": "observability",
    "Reporting issues": "reporting_issues",
}
"""Sections of torch's programming model, and our page about each."""
HEAD = ("contents", "page", "cells", "pictures", "claims", "predictions")


@dataclass(frozen=True, slots=True)
class CountedPage:
    """One page."""

    contents: str
    page: str
    cells: int
    pictures: int
    claims: int
    predictions: int


def count(contents: str, path: Path) -> CountedPage:
    """The row of a page."""
    text = path.read_text(encoding="utf-8")
    cells = re.findall(r"^```\{code-cell\}.*?\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    shown = sum(bool(re.search(r"^%%compile|\.show\(", cell, re.MULTILINE)) for cell in cells)
    executed = "\n".join(cells)  # code that is only shown, and not executed, is not counted
    claims = len(re.findall(r"^\s*claim\(", executed, re.MULTILINE))
    predictions = len(re.findall(r"^%%compile\b.*--predict", executed, re.MULTILINE))
    return CountedPage(contents, str(path.relative_to(ROOT)), len(cells), shown, claims, predictions)


def rows() -> list[CountedPage]:
    """The 16 pages of the book, the page beyond them, and the lectures."""
    book = [count(contents, ROOT / "docs" / f"{name}.md") for contents, name in BOOK.items()]
    lectures = sorted((ROOT / "notebooks" / "course").glob("*.md"))
    beyond = count("From bytecode to machine code", ROOT / "docs" / "how_it_works.md")
    return [*book, beyond, *(count(f"Lecture {path.name[0]}", path) for path in lectures)]


class CourseTable(SphinxDirective):
    """``{course-table}``: the table."""

    def run(self) -> list[nodes.Node]:
        """Build the table; the page depends on every page that is counted."""
        found = rows()
        for row in found:
            self.env.note_dependency(os.fspath(ROOT / row.page))
        texts = [HEAD, *(tuple(map(str, astuple(row))) for row in found)]
        return [table(texts, widths=(5, 5, 1, 1, 1, 1), cls="course")]
