r"""A graph as boxes, as DOT, and with a place for each box.

    nodes of a Graph --boxes--> Box ...          big graphs are folded first
                     --dot----> graphviz.Digraph  for users to keep and restyle
                     --arrange> Arrangement       where each box and arrow goes

Layout runs in this process (pygraphviz brings Graphviz along) or in a ``dot``
on the PATH; with neither, :func:`arrange` gives None and views fall back on the
table. DOT reads ``<...>`` as markup and ``\N`` as an escape, so labels are
escaped and no text of the user ever names a node.

In torch: torch/fx/passes/graph_drawer.py. Read next: nbcompile/views/svg.py
"""

from __future__ import annotations

import functools
import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import graphviz

from nbcompile.record.model import Graph, Node
from nbcompile.views import facts

try:
    import pygraphviz
except ImportError:  # the `dot` program does as well
    pygraphviz = None

MOST_BOXES = 60
"""Above this a graph is folded: nobody reads 500 boxes, and layout takes seconds."""
CHARACTER = 7.25
"""Width of a character of the boxes' 12 px monospaced font."""


@dataclass(frozen=True, slots=True)
class Box:
    """What is drawn as one box: a node, or a fold of several."""

    nodes: tuple[str, ...]
    """Ids of the nodes it stands for."""
    kind: str
    """``input``, ``operator``, ``output`` or ``fold``."""
    title: str
    detail: str
    reads: tuple[int, ...]
    """Positions of the boxes that it reads."""

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in pixels: the text's, and some air."""
        letters = max(len(self.title), len(self.detail) * 0.86, 4)
        return round(letters * CHARACTER + 22), 42.0 if self.detail else 28.0


# --- nodes to boxes ----------------------------------------------------------------------------


def boxes(graph: Graph, most: int = MOST_BOXES) -> tuple[Box, ...]:
    """One box a node, or, in a big graph, one box a run of nodes from the same line."""
    groups = _groups(graph.nodes, most)
    box_of = {node.id: index for index, group in enumerate(groups) for node in group}
    result = []
    for index, group in enumerate(groups):
        sources = {box_of[each] for node in group for each in node.inputs if each in box_of}
        result.append(_box(group, tuple(sorted(sources - {index}))))
    return tuple(result)


def _groups(nodes: Sequence[Node], most: int) -> list[list[Node]]:
    """Runs of nodes to draw as one box, as fine as the limit allows.

    Only neighbours in program order are folded, so arrows still all point
    forward: the folded graph has no cycle.
    """
    if len(nodes) <= most:
        return [[node] for node in nodes]
    deepest = max(len(node.stack) for node in nodes)
    for depth in range(deepest, 0, -1):
        groups = _runs(nodes, depth)
        if len(groups) <= most:
            return groups
    return _chunks(_runs(nodes, deepest) if deepest else [[node] for node in nodes], most)


def _runs(nodes: Sequence[Node], depth: int) -> list[list[Node]]:
    """Neighbours with the same outer ``depth`` lines of stack together; all inputs are alike."""
    groups: list[list[Node]] = []
    last: object = None
    for node in nodes:
        key = (
            _kind(node),
            "" if _kind(node) == "input" else tuple((line.file, line.line) for line in node.stack[:depth]),
        )
        if key != last:
            groups.append([])
        groups[-1].append(node)
        last = key
    return groups


def _chunks(groups: list[list[Node]], most: int) -> list[list[Node]]:
    """Equal numbers of neighbouring groups together; inputs, operators and output stay apart."""
    size = -(-len(groups) // max(most - 3, 1))
    chunks: list[list[Node]] = []
    taken = 0
    for group in groups:
        if not chunks or taken == size or _kind(chunks[-1][-1]) != _kind(group[0]):
            chunks.append([])
            taken = 0
        chunks[-1] += group
        taken += 1
    return chunks


_KINDS = {"placeholder": "input", "get_attr": "input", "output": "output"}


def _kind(node: Node) -> str:
    return _KINDS.get(node.op, "operator")


def _box(group: Sequence[Node], reads: tuple[int, ...]) -> Box:
    first, ids = group[0], tuple(node.id for node in group)
    kind = _kind(first)
    if len(group) > 1:
        noun = "input" if kind == "input" else "operator"
        names = (node.name if kind == "input" else facts.short_target(node.target) for node in group)
        code = group[0].stack[-1].code if kind == "operator" and group[0].stack else ""
        title = _clipped(code or facts.shortened(dict.fromkeys(names), 3))
        return Box(ids, kind if kind == "input" else "fold", title, facts.count(len(group), noun), reads)
    if kind == "input":
        return Box(ids, kind, _clipped(facts.readable(first.source) or first.name), facts.type_of(first), reads)
    if kind == "output":
        return Box(ids, kind, "output", "", reads)
    named = first.name + (": " + facts.type_of(first) if facts.type_of(first) else "")
    return Box(ids, kind, _clipped(facts.short_target(first.target)), _clipped(named, 40), reads)


def _clipped(text: str, most: int = 34) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


# --- boxes to DOT ------------------------------------------------------------------------------

_FILLS = {"input": "#e8f1fb", "operator": "#ffffff", "fold": "#f3f1fb", "output": "#eaf6ee"}


def dot(graph: Graph, most: int = MOST_BOXES) -> graphviz.Digraph:
    """The graph as a DOT object, to keep, restyle or render."""
    return _digraph(boxes(graph, most), labels=True)


def _digraph(shown: Iterable[Box], *, labels: bool) -> graphviz.Digraph:
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
            result.edge(f"n{read}", f"n{index}")
    return result


def escaped(text: str) -> str:
    """Text as a DOT label that is drawn literally, whatever it holds."""
    return html.escape(text, quote=False).replace("\\", "\\\\").replace("\n", "\\n")


# --- DOT to places -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Places in pixels, the origin at the top left."""

    width: float
    height: float
    centres: tuple[tuple[float, float], ...]
    """Of each box, in order."""
    arrows: tuple[tuple[int, int, tuple[tuple[float, float], ...]], ...]
    """From box, to box, and the control points of a Bezier curve."""


def arrange(shown: tuple[Box, ...]) -> Arrangement | None:
    """Where the boxes go; None without a layout engine."""
    # Layout needs sizes and arrows only. Without labels, no font is looked for (which takes long and may warn).
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
