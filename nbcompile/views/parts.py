"""Parts of the graph of a DistributedDataParallel module, split at its gradient buckets.

    submod_0   2 operators   layers.0.weight, layers.0.bias   1.1 MB   the last bucket that is complete
    submod_1   2 operators   layers.1.weight, layers.1.bias   1.1 MB   a bucket of 1.0 MB is full

In torch: TORCH_LOGS=ddp_graphs, and a table in the log of DDPOptimizer. Read next: nbcompile/views/memory.py
"""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from nbcompile.record import links
from nbcompile.record.model import CompiledFrame, Part
from nbcompile.views import costs, facts
from nbcompile.views.graph import node_names
from nbcompile.views.markup import Limits, code, join, row, table, tag


def render(frame: CompiledFrame, found: links.FrameLinks, limits: Limits) -> Markup | None:
    """The parts, one a row; None without DDP."""
    parts = frame.compiled_graph.parts if frame.compiled_graph else ()
    if not parts:
        return None
    shown, more = limits.cut(parts)
    rows = [
        row(tag("th", code(part.name)), facts.count(len(part.nodes), "operator"),
            code(", ".join(_parameters(frame, part))), costs.words(part.size), _reason(parts, part),
            nodes=node_names(found, *part.nodes))
        for part in shown
    ]  # fmt: skip
    caption = "Parts, each compiled by itself"
    drawn = table(caption, ("part", "computes", "parameters", "gradients", "why it begins here"), rows, grid=True)
    return join((tag("p", sentence(parts), class_="n-callout"), drawn, more))


def as_text(frame: CompiledFrame) -> Iterator[str]:
    """The parts, a line each."""
    parts = frame.compiled_graph.parts if frame.compiled_graph else ()
    if parts:
        yield sentence(parts)
    for part in parts:
        names = ", ".join(_parameters(frame, part)) or "no parameter"
        computed = facts.count(len(part.nodes), "operator")
        yield f"  {part.name}  {computed}  {costs.words(part.size)} of {names}: {_reason(parts, part)}"


def sentence(parts: tuple[Part, ...]) -> str:
    """Sentence on whether a graph is split, and why."""
    if len(parts) == 1:
        return (
            f"DistributedDataParallel sends one bucket of gradients ({costs.words(parts[0].size)}): "
            "the graph is not split."
        )
    return (
        f"Split into {len(parts)} parts at the gradient buckets of DistributedDataParallel: each part's gradients are "
        "sent while backward goes on (config.optimize_ddp)."
    )


def _parameters(frame: CompiledFrame, part: Part) -> list[str]:
    sources = {node.id: facts.readable(node.source) for node in frame.graph.nodes} if frame.graph else {}
    return [sources.get(each, each) for each in part.parameters]


def _reason(parts: tuple[Part, ...], part: Part) -> str:
    if part is parts[0]:
        return "the graph begins here"
    late = f", and {facts.count(part.late, 'operator')} later a part can begin" if part.late else ""
    return f"its bucket of {costs.words(part.limit)} is full{late}"
