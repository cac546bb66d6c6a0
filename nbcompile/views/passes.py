"""Passes over an ATen graph, each as a diff of the graph before and after.

    joint → forward       the joint graph is partitioned: nodes that only the derivative needs are removed
    joint → backward      the other half
    traced → inference    a region became one operator

A pass that changes nothing is named and has no diff. The translation of the
captured graph is not listed here: it changes every line, and is shown by links.

In torch: TORCH_COMPILE_DEBUG=1 writes fx_graph_readable.py and
fx_graph_transformed.py, to be compared by hand. Read next: nbcompile/views/kernels.py
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from markupsafe import Markup

from nbcompile.record import links
from nbcompile.record.model import CompiledFrame, Graph
from nbcompile.views import facts
from nbcompile.views.markup import Limits, fold, join, listing, row, table, tag

_PASSES = {
    ("joint", "forward"): "cut: operators of the derivative are gone, what it needs is returned",
    ("joint", "backward"): "cut: operators of the forward graph are gone, what it saved is an input",
    ("traced", "inference"): "regions that one operator computes became that operator",
}
"""Titles by the stages of the graphs before and after."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass: two graphs of a frame, before and after."""

    before: Graph
    after: Graph
    words: str

    @property
    def name(self) -> str:
        """``joint → forward``."""
        part = f"{self.after.part}: " if self.after.part else ""
        return f"{part}{self.before.stage} → {self.after.stage}"

    @property
    def diff(self) -> tuple[str, ...]:
        """The lines that differ, with two lines of context; empty if the pass changed nothing."""
        old, new = (each.code.rstrip("\n").split("\n") for each in (self.before, self.after))
        return tuple(difflib.unified_diff(old, new, self.before.stage, self.after.stage, lineterm="", n=2))


def of(frame: CompiledFrame) -> Iterator[Pass]:
    """The passes over the graphs of a frame, in order."""
    # A pass is not recorded itself: it is the difference of two recorded graphs.
    graphs = {(each.part, each.stage): each for each in links.graphs(frame)}
    for part in dict.fromkeys(part for part, _ in graphs):
        for (before, after), words in _PASSES.items():
            if (part, before) in graphs and (part, after) in graphs:
                yield Pass(graphs[part, before], graphs[part, after], words)


def render(frame: CompiledFrame, limits: Limits) -> Markup | None:
    """The passes, one per row, with their changes; passes without a change are folded below."""
    ran = list(of(frame))
    idle = [each for each in ran if not each.diff]
    changed = _table("What each pass changed", (_row(each, limits) for each in ran if each.diff))
    rest = _table("Each left the graph as it was", (row(tag("th", each.name), each.words) for each in idle))
    return join((changed, fold("Passes that change nothing here", rest) if idle else None)) if ran else None


def _table(caption: str, rows: Iterable[Markup]) -> Markup | None:
    shown = list(rows)
    return table(caption, ("pass", "what it does"), shown) if shown else None


def _row(entry: Pass, limits: Limits) -> Markup:
    diff = entry.diff
    # The first two lines of a diff name the graphs.
    gone, come = (sum(line.startswith(sign) for line in diff[2:]) for sign in "-+")
    program = listing(
        facts.with_short_locations("\n".join(diff)), "diff", limits, looks=lambda index: _LOOKS.get(diff[index][0], "")
    )
    return row(tag("th", entry.name), (entry.words, fold(f"lines: −{gone} +{come}", program)))


_LOOKS = {"+": "n-ok", "-": "n-bad", "@": "c"}


def as_text(frame: CompiledFrame) -> Iterator[str]:
    """Passes as plain text."""
    for entry in of(frame):
        yield f"{entry.name}: {entry.words if entry.diff else 'nothing changes'}"
        yield from (f"  {line}" for line in entry.diff)
