"""What each pass over an ATen graph changed: the lines of the graph before and after, as a diff.

    joint → forward       the joint graph is cut: what the derivative alone needs is gone
    joint → backward      the other half
    traced → inference    a region became one operator

A pass that changes nothing is named and has no diff. The translation of the
captured graph is no pass here: it changes every line, and is shown by links.

In torch: TORCH_COMPILE_DEBUG=1 writes fx_graph_readable.py and
fx_graph_transformed.py, to be compared by hand. Read next: nbcompile/views/kernels.py
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from nbcompile.record import links
from nbcompile.record.model import CompiledFrame, Graph
from nbcompile.views import facts
from nbcompile.views.markup import Limits, fold, join, listing, tag

_PASSES = {
    ("joint", "forward"): "cut: operators of the derivative are gone, what it needs is returned",
    ("joint", "backward"): "cut: operators of the forward graph are gone, what it saved is an input",
    ("traced", "inference"): "regions that one operator computes became that operator",
}
"""By the stages of the graphs before and after."""


@dataclass(frozen=True, slots=True)
class Pass:
    """Two graphs of one frame, one made from the other."""

    before: Graph
    after: Graph
    words: str

    @property
    def diff(self) -> tuple[str, ...]:
        """The lines that differ and two around each; none where the pass changed nothing."""
        old, new = (each.code.rstrip("\n").split("\n") for each in (self.before, self.after))
        return tuple(difflib.unified_diff(old, new, self.before.stage, self.after.stage, lineterm="", n=2))


def of(frame: CompiledFrame) -> Iterator[Pass]:
    """The passes over the graphs of a frame, in order."""
    graphs = {each.stage: each for each in links.graphs(frame)}
    for (before, after), words in _PASSES.items():
        if before in graphs and after in graphs:
            yield Pass(graphs[before], graphs[after], words)


def render(frame: CompiledFrame, limits: Limits) -> Markup | None:
    """A fold for each pass."""
    folds = [_fold(each, limits) for each in of(frame)]
    return join(folds) if folds else None


def _fold(each: Pass, limits: Limits) -> Markup:
    title = [tag("b", f"{each.before.stage} → {each.after.stage}"), " ", tag("small", each.words)]
    diff = each.diff
    if not diff:
        return tag("p", title, "; it changes nothing here")
    return fold(
        title,
        listing(
            facts.with_short_places("\n".join(diff)), "diff", limits, looks=lambda index: _LOOKS.get(diff[index][0], "")
        ),
    )


_LOOKS = {"+": "n-ok", "-": "n-bad", "@": "c"}


def as_text(frame: CompiledFrame) -> Iterator[str]:
    """The same, a line a line."""
    for each in of(frame):
        yield f"{each.before.stage} → {each.after.stage}: {each.words if each.diff else 'nothing changes'}"
        yield from (f"  {line}" for line in each.diff)
