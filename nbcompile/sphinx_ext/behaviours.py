"""A table of the documented behaviours of torch.compile, generated from the tests that show them.

    def test_CB_6_graphs_of_a_branch():          CB-6 | The comparison is the last operator ... | holds
        "The comparison is the last operator ..."

A row states what its test checks: the text is the test's docstring, and the outcome is derived from its decorators.

In torch: nothing. Read next: tests/support/watched.py
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from nbcompile.sphinx_ext.tables import paragraph, table

TESTS = Path(__file__).parents[2] / "tests" / "behaviour"
_NAME = re.compile(r"test_([A-Z]{2})_(\d+)(?:_and_(?:([A-Z]{2})_)?(\d+))?")


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One test of one or two behaviours."""

    section: str
    ids: tuple[str, ...]
    says: str
    outcome: str
    """``holds``, ``differs: why`` or ``open: why``."""


def behaviours(folder: Path = TESTS) -> Iterator[Behaviour]:
    """All behaviours, section by section."""
    for path in sorted(folder.glob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        section = (ast.get_docstring(tree) or path.stem).partition("\n")[0].rstrip(".")
        for node in ast.walk(tree):
            found = _NAME.match(node.name) if isinstance(node, ast.FunctionDef) else None
            if found is not None and isinstance(node, ast.FunctionDef):
                says = re.sub(r"\s+", " ", ast.get_docstring(node) or "")
                yield Behaviour(section, _ids(found), says, _outcome(node))


def _ids(found: re.Match[str]) -> tuple[str, ...]:
    prefix, number, other, more = found.groups()
    first = f"{prefix}-{number}"
    return (first, f"{other or prefix}-{more}") if more else (first,)


def _outcome(node: ast.FunctionDef) -> str:
    for decorator in node.decorator_list:
        if not isinstance(decorator, ast.Call):
            continue
        name = ast.unparse(decorator.func)
        if name == "differs":
            return f"differs: {ast.literal_eval(decorator.args[0])}"
        if name.endswith(".xfail"):
            reasons = [each.value for each in decorator.keywords if each.arg == "reason"]
            return f"open: {ast.literal_eval(reasons[0]) if reasons else ''}"
    return "holds"


class Behaviours(SphinxDirective):
    """``{behaviours}``: a table for each section, and the number of each outcome."""

    def run(self) -> list[nodes.Node]:
        """Build the tables; the page depends on every test."""
        for path in TESTS.glob("test_*.py"):
            self.env.note_dependency(str(path))
        found = list(behaviours())
        content: list[nodes.Node] = [paragraph(_summary(found))]
        for section in dict.fromkeys(each.section for each in found):
            rows = [each for each in found if each.section == section]
            texts = [(", ".join(each.ids), each.says, each.outcome) for each in rows]
            content += [nodes.rubric(text=section), paragraph(_summary(rows))]
            content.append(table(texts, widths=(1, 6, 3), cls="behaviours"))
        return content


def _summary(rows: list[Behaviour]) -> str:
    kinds = [each.outcome.partition(":")[0] for each in rows]
    counts = [
        f"{kinds.count(kind)} {word}" for kind, word in (("holds", "hold"), ("differs", "differ"), ("open", "open"))
    ]
    return f"{len({name for each in rows for name in each.ids})} behaviours in {len(rows)} tests: {', '.join(counts)}."
