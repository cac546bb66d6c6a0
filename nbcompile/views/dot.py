r"""Diagram of a graph: boxes, DOT, and the layout of the boxes.

    nodes ─ groups ─ boxes (boxes.py) ─ DOT ─ graphviz ─ positions ─ SVG (svg.py)

    dot        graphviz.Digraph, for users to keep and restyle
    arrange    Arrangement: positions of boxes and arrows

Layout runs in this process (pygraphviz contains Graphviz) or in a ``dot`` on the PATH; with neither, :func:`arrange`
returns None and views fall back to the table. DOT reads ``<...>`` as markup and ``\N`` as an escape, so labels are
escaped and node names contain no text of the user.

In torch: torch/fx/passes/graph_drawer.py. Read next: nbcompile/views/svg.py
"""

from __future__ import annotations

import functools
import html
from collections.abc import Sequence
from dataclasses import dataclass

from nbcompile.record.model import Graph
from nbcompile.views.boxes import MOST_BOXES, Box, boxes

try:
    import graphviz
except ImportError:  # a checkout on a machine with only torch
    graphviz = None
try:
    import pygraphviz
except ImportError:  # the `dot` program does as well
    pygraphviz = None

# --- boxes to DOT ------------------------------------------------------------------------------

_FILLS = {"input": "#e8f1fb", "operator": "#ffffff", "fold": "#f3f1fb", "output": "#eaf6ee"}


def dot(graph: Graph, most: int = MOST_BOXES) -> graphviz.Digraph:
    """DOT object of the graph, to save, restyle or render."""
    return _digraph(boxes(graph, most), labels=True)


def _digraph(shown: Sequence[Box], *, labels: bool) -> graphviz.Digraph:
    result = graphviz.Digraph(
        graph_attr={"rankdir": "TB", "nodesep": "0.22", "ranksep": "0.32", "bgcolor": "transparent"},
        node_attr={"shape": "box", "style": "rounded,filled", "fontname": "monospace", "fontsize": "10",
                   "fixedsize": "true", "color": "#8a93a3"},
        edge_attr={"color": "#8a93a3", "arrowsize": "0.6"} if labels else {"arrowhead": "none"},
    )  # fmt: skip
    for index, box in enumerate(shown):
        width, height = box.size
        label = escaped("\n".join(filter(None, (box.title, box.detail)))) if labels else ""
        result.node(
            f"n{index}", label=label, fillcolor=_FILLS[box.kind], width=f"{width / 72:.3f}", height=f"{height / 72:.3f}"
        )
        for read in box.reads:
            # Parameters that are folded into one box have many users: their arrows would hide all others.
            if shown[read].kind != "input" or len(shown[read].nodes) == 1:
                result.edge(f"n{read}", f"n{index}")
    return result


def escaped(text: str) -> str:
    """Text as a DOT label that is drawn literally, with any characters."""
    # Backslashes of the text first: the one in "\n" is DOT's own line break.
    return html.escape(text, quote=False).replace("\\", "\\\\").replace("\n", "\\n")


# --- DOT to positions -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Positions in pixels, the origin at the top left."""

    width: float
    height: float
    centres: tuple[tuple[float, float], ...]
    """Position of each box, in order."""
    arrows: tuple[tuple[int, int, tuple[tuple[float, float], ...]], ...]
    """Edges: source, target, and the control points of a Bezier curve."""


def arrange(shown: tuple[Box, ...]) -> Arrangement | None:
    """Layout of the boxes; None without a layout engine."""
    if graphviz is None:
        return None
    # Layout needs only sizes and arrows. Without labels, Graphviz loads no font (which is slow and may warn).
    plain = _plain_layout(_digraph(shown, labels=False).source)
    return None if plain is None else _parsed(plain, len(shown))


@functools.lru_cache(maxsize=64)
def _plain_layout(source: str) -> str | None:
    """Graphviz's ``plain`` output for DOT text; the same text is laid out once."""
    if pygraphviz is not None:
        return str(pygraphviz.AGraph(string=source).draw(format="plain", prog="dot").decode())
    try:
        return graphviz.Source(source).pipe(format="plain", encoding="utf-8")
    except (graphviz.ExecutableNotFound, graphviz.CalledProcessError):
        return None


def _parsed(plain: str, number: int) -> Arrangement:
    """Read ``plain``: inches with the origin at the bottom left, one item a line."""
    centres: list[tuple[float, float]] = [(0.0, 0.0)] * number
    arrows = []
    # The first line has the height of the whole, from which all others are measured, as the origin moves to the top.
    width = height = 0.0

    def pixels(x: str, y: str) -> tuple[float, float]:
        return round(float(x) * 72, 1), round(height - float(y) * 72, 1)

    for line in plain.splitlines():
        match line.split():
            case ["graph", _, wide, high]:
                width, height = round(float(wide) * 72, 1), round(float(high) * 72, 1)
            case ["node", name, x, y, *_]:
                centres[int(name[1:])] = pixels(x, y)
            case ["edge", tail, head, points, *rest]:
                numbers = rest[: 2 * int(points)]
                curve = tuple(pixels(x, y) for x, y in zip(numbers[::2], numbers[1::2], strict=True))
                arrows.append((int(tail[1:]), int(head[1:]), curve))
    return Arrangement(width, height, tuple(centres), tuple(arrows))
