"""Differences from the real torch.compile in the subject of a page, generated from the list that the tests use.

    ```{differences} dynamic shapes     78 programs in dynamic.py and shapes.py run with both compilers; 9 differ: ...
    ```

The argument names files of ``tests/peer/programs``. Each row is a strict expected failure: its test fails as soon as
the difference is gone, so the table is up to date.

In torch: nothing. Read next: tests/peer/known.py, docs/known_differences.md
"""

from __future__ import annotations

import ast
import runpy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from nbcompile.sphinx_ext.tables import paragraph, table

PEER = Path(__file__).parents[2] / "tests" / "peer"
MARKS = ("program", "case")
"""The decorators of a program."""
MOST = 10
"""Rows of a page's table; the others are on the page of all differences."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A program whose compilation differs."""

    program: str
    aspects: tuple[str, ...]
    why: str


def programs(files: Sequence[str], folder: Path = PEER) -> list[str]:
    """Names of the programs in some files."""
    return [
        node.name
        for file in files
        for node in ast.parse((folder / "programs" / f"{file}.py").read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and any(_mark(each) in MARKS for each in node.decorator_list)
    ]


def _mark(decorator: ast.expr) -> str:
    return ast.unparse(decorator.func) if isinstance(decorator, ast.Call) else ""


def differences(names: Sequence[str], folder: Path = PEER) -> list[Difference]:
    """Find the known differences of some programs, in their order."""
    known: dict[tuple[str, str], str] = runpy.run_path(str(folder / "known.py"))["KNOWN"]
    found = []
    for name in names:
        reasons = {aspect: reason for (program, aspect), reason in known.items() if program == name}
        if reasons:
            found.append(Difference(name, tuple(reasons), " ".join(dict.fromkeys(reasons.values()))))
    return found


class Differences(SphinxDirective):
    """``{differences} files``: the number of programs, and the differences."""

    required_arguments = 1
    optional_arguments = 3

    def run(self) -> list[nodes.Node]:
        """Build the paragraph and the table; the page depends on the list and the programs."""
        files = list(self.arguments)
        for path in (PEER / "known.py", *(PEER / "programs" / f"{file}.py" for file in files)):
            self.env.note_dependency(str(path))
        try:
            names = programs(files)
        except FileNotFoundError as missing:
            raise self.error(f"no programs in {missing.filename}") from None
        found = differences(names)
        where = " and ".join(f"tests/peer/programs/{file}.py" for file in files)
        text = f"{len(names)} programs in {where} run with both compilers. "
        text += (
            f"{len(found)} differ in their graphs, the details of these, or the reasons that are given"
            if found
            else "None differs"
        )
        if not found:
            return [paragraph(text + ".")]
        shown = [(each.program, ", ".join(each.aspects), each.why) for each in found[:MOST]]
        if len(found) > MOST:
            text += f"; the first {MOST} are"
        return [paragraph(text + ":"), table(shown, widths=(3, 2, 5), cls="differences")]
