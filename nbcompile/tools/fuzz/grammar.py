"""Grammar: random text from tables of alternatives.

    == N                           an alternative of N is drawn wherever a text has <N>
    1  ¦  len(<L>)
    == STATEMENT
    if <N>: ⏎     <L>.append(1)    two lines

``¦`` separates the alternatives of one line, ``⏎`` separates the lines of one alternative, ``<#>`` is a number, which
is the same throughout an alternative, and ``<BLOCK>`` ends a line that statements follow.

In torch: nothing. Read next: nbcompile/tools/fuzz/python.py
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HOLE = re.compile(r"<([A-Z]+)>")
INDENT = "    "
DEEPER = 0.6
"""Probability that a hole is filled by an alternative with holes."""
TABLES = Path(__file__).parent / "tables"


def read(name: str) -> dict[str, list[str]]:
    """The alternatives of a file in ``tables/``."""
    tables: dict[str, list[str]] = {}
    alternatives: list[str] = []
    for line in (TABLES / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            alternatives = tables.setdefault(line.removeprefix("== "), [])
        else:
            alternatives += [part.strip().replace(" ⏎ ", "\n") for part in line.split("¦") if part.strip()]
    return tables


@dataclass(frozen=True)
class Grammar:
    """Generator of random texts."""

    tables: Mapping[str, Sequence[str]]
    depth: int = 3
    nested: float = 0.25
    """Probability of a compound statement."""

    def draw(self, rng: random.Random, text: str, depth: int | None = None) -> str:
        """The text with its holes filled."""
        left = self.depth if depth is None else depth
        return HOLE.sub(lambda hole: self._filled(rng, hole[1], left), text)

    def _filled(self, rng: random.Random, name: str, left: int) -> str:
        table = self.tables[name]
        if left <= 0 or rng.random() > DEEPER:
            table = [text for text in table if "<" not in text] or table
        return self.draw(rng, rng.choice(table), left - 1)

    def block(self, rng: random.Random, budget: int, indent: int = 1) -> list[str]:
        """Statements, about ``budget`` of them in total."""
        lines: list[str] = []
        while budget > 0:
            drawn = self.statement(rng, budget, indent)
            budget -= len(drawn)
            lines += drawn
        return lines

    def statement(self, rng: random.Random, budget: int, indent: int) -> list[str]:
        """One statement; the blocks in it share the budget."""
        compound = budget > 2 and indent < 5 and rng.random() < self.nested
        text = rng.choice(self.tables["COMPOUND" if compound else "STATEMENT"])
        text = text.replace("<#>", str(rng.randrange(1000)))
        share = max(1, (budget - 1) // max(1, text.count("<BLOCK>")))
        lines: list[str] = []
        for raw in text.split("\n"):
            line, has_block, _ = raw.partition("<BLOCK>")
            deeper = (len(line) - len(line.lstrip())) // len(INDENT)
            lines.append(INDENT * indent + self.draw(rng, line.rstrip()))
            if has_block:
                inside = indent + deeper + line.rstrip().endswith(":")
                lines += self.block(rng, rng.randint(1, share), inside)
        return lines
