"""Memory plan: the live range of each buffer, and the memory that it reuses.

    buf0   4,096 B   ■■··   allocated
    buf1   4,096 B   ·■■·   allocated
    buf2   4,096 B   ··■■   buf0's, which is not read any more

A column is a launch: a kernel or a call of ATen.

In torch: torch/_inductor/memory.py plans without showing it. Read next: nbcompile/scheduling/memory.py
"""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from nbcompile.record import links
from nbcompile.record.model import CompiledGraph, Lifetime
from nbcompile.views import facts
from nbcompile.views.graph import node_names
from nbcompile.views.markup import Limits, code, fold, row, table, tag

MOST_LAUNCHES = 60
"""Number of launches up to which a plan is drawn; with more, first and last launch are listed."""


def render(compiled: CompiledGraph, found: links.FrameLinks, limits: Limits) -> Markup | None:
    """The plan as a table; None if fewer than two buffers are allocated, which share no memory."""
    if len(compiled.lifetimes) < 2:
        return None
    shown, more = limits.cut(compiled.lifetimes)
    launches = launch_counts(compiled)
    rows = [
        row(tag("th", code(lifetime.buffer)), _bytes(lifetime), code(_strip(lifetime, launches[_graph(lifetime)])),
            _owner(lifetime), nodes=node_names(found, lifetime.buffer))
        for lifetime in shown
    ]  # fmt: skip
    caption = "Which launches each buffer lives through"
    shown_rows = table(caption, ("buffer", "size", "lives", "memory"), rows, grid=True)
    counted = "compiled_graph.lifetimes compiled_graph.lifetimes[memory_of=]"
    return fold(f"Memory plan: {saved(compiled)}", shown_rows, more, figures=counted)


def as_text(compiled: CompiledGraph) -> Iterator[str]:
    """The plan, one line per buffer."""
    launches = launch_counts(compiled)
    if compiled.lifetimes:
        yield f"memory plan: {saved(compiled)}"
    for lifetime in compiled.lifetimes:
        strip = _strip(lifetime, launches[_graph(lifetime)])
        yield f"  {lifetime.buffer}  {_bytes(lifetime)}  {strip}  {_owner(lifetime)}"


def saved(compiled: CompiledGraph) -> str:
    """``3 buffers in 2 pieces of memory``."""
    allocated = sum(not each.memory_of for each in compiled.lifetimes)
    return f"{facts.count(len(compiled.lifetimes), 'buffer')} in {facts.count(allocated, 'piece')} of memory"


def launch_counts(compiled: CompiledGraph) -> dict[str, int]:
    """Number of launches of each graph, as far as the plan shows."""
    counts: dict[str, int] = {}
    for lifetime in compiled.lifetimes:
        counts[_graph(lifetime)] = max(counts.get(_graph(lifetime), 0), lifetime.first, lifetime.last)
    return counts


def _graph(lifetime: Lifetime) -> str:
    """``forward``, ``backward``, or nothing where there is one graph."""
    return lifetime.buffer.rpartition(".")[0]


def _bytes(lifetime: Lifetime) -> str:
    return f"{int(lifetime.size):,} B" if lifetime.size.isdecimal() else f"{lifetime.size} B"


def _strip(lifetime: Lifetime, launches: int) -> str:
    """The launches of its live range: ``·■■·``."""
    # 0: it is returned, so it is live to the end.
    last = lifetime.last or launches
    if launches > MOST_LAUNCHES:
        return f"{lifetime.first} to {last}"
    #     ·■■··      allocated for the second launch, read last by the third
    return "·" * (lifetime.first - 1) + "■" * (last - lifetime.first + 1) + "·" * (launches - last)


def _owner(lifetime: Lifetime) -> str:
    allocated = "saved by the forward graph" if lifetime.saved else "allocated"
    whose = f"{lifetime.memory_of}'s" if lifetime.memory_of else allocated
    return whose if lifetime.last else f"{whose}; returned"
