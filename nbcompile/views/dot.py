r"""Diagram of a graph: boxes, DOT, and the layout of the boxes.

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
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

from nbcompile.record.model import Graph, Node
from nbcompile.views import facts

try:
    import graphviz
except ImportError:  # a checkout on a machine with nothing but torch
    graphviz = None
try:
    import pygraphviz
except ImportError:  # the `dot` program does as well
    pygraphviz = None

Item = TypeVar("Item")
MOST_BOXES = 60
"""Number of boxes above which a graph is folded: 500 are unreadable, and their layout takes seconds."""
CHARACTER = 7.25
"""Width of a character of the boxes' 12 px monospaced font."""


@dataclass(frozen=True, slots=True)
class Box:
    """One box of the diagram: a node, or several folded nodes."""

    nodes: tuple[str, ...]
    """Ids of its nodes."""
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
        # The detail is set in a smaller font (0.86); four letters are the least, so that a box can be pointed at.
        return round(letters * CHARACTER + 22), 42.0 if self.detail else 28.0


# --- nodes to boxes ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Group:
    """Neighbours in program order that are drawn as one box: so all arrows still point forward."""

    nodes: tuple[Node, ...]
    times: int = 1
    """Number of repetitions of a region, after the one that is drawn in full, if more than 1."""
    code: str = ""
    """Line of a module's ``forward`` that calls the helper function which creates all of them."""


def boxes(graph: Graph, most: int = MOST_BOXES) -> tuple[Box, ...]:
    """One box a node; in a big graph one a call or a line, and one for the repetitions of a region."""
    #     nodes ─ groups ─ boxes ─ DOT ─ graphviz ─ places ─ SVG (svg.py)
    groups = _groups(graph.nodes, most)
    box_of = {node.id: index for index, group in enumerate(groups) for node in group.nodes}
    result = []
    for index, group in enumerate(groups):
        sources = {box_of[each] for node in group.nodes for each in node.inputs if each in box_of}
        result.append(_box(group, tuple(sorted(sources - {index}))))
    return tuple(result)


def _groups(nodes: Sequence[Node], most: int) -> list[Group]:
    """Groups of nodes to draw as one box, as fine as the limit allows: first repetitions are folded, then modules,
    or, where there are no modules, what a line does or a call.
    """
    if len(nodes) <= most:
        return [Group((node,)) for node in nodes]
    # A program that is no module has lines of its source instead: what one line computes is one box.
    by_module = any(node.modules for node in nodes)
    module_paths = [_module_path_of(node, by_module=by_module) for node in nodes]
    helpers = _helper_calls(nodes) if by_module else {}
    deepest = max(map(len, module_paths))
    finer: list[Group] = []
    # From the finest division to the coarsest, until one fits. Where that one is much too coarse (a quarter of the
    # limit), boxes of the step before are kept as far as the limit allows.
    for depth in range(deepest + 1, 0, -1):
        groups = _without_repetitions(_runs(nodes, module_paths, depth, helpers))
        if len(groups) <= most:
            return groups if len(groups) > most // 4 or not finer else _divided(groups, finer, most)
        finer = groups
    # Not even one box for each outermost module fits: neighbours are put together by number alone.
    return _chunks(_runs(nodes, module_paths, deepest) if deepest else [Group((node,)) for node in nodes], most)


def _module_path_of(node: Node, *, by_module: bool) -> tuple[object, ...]:
    """Path of a node, from the outside in: the modules that were called, or the lines."""
    return node.modules if by_module else tuple((line.file, line.line) for line in node.stack)


MOST_OF_A_CALL = 6
"""Operators of one call of a helper function that are drawn one by one where the graph has modules to look at."""


def _helper_calls(nodes: Sequence[Node]) -> dict[int, tuple[int, str]]:
    """Neighbours that a module which calls other modules makes in one call of a helper: masks, caches, positions.

    Of each such node, by its number: the number of the first of its call, and the line that calls the helper.
    """
    # Modules that call other modules: of a leaf like Linear, everything is its own work.
    callers = {node.modules[:length] for node in nodes for length in range(len(node.modules))}
    depths = {path: _shared_depth([node for node in nodes if node.modules[: len(path)] == path]) for path in callers}
    found: dict[int, tuple[int, str]] = {}

    def call(numbered: tuple[int, Node]) -> object:
        number, node = numbered
        depth = depths.get(node.modules, -1)
        # There is a line below those that the module's nodes share: the operator is made in a function that `forward`
        # calls.
        is_helper = _kind(node) == "operator" and 0 <= depth < len(node.stack) - 1
        return (node.modules, node.stack[depth].line) if is_helper else number

    for _, same in itertools.groupby(enumerate(nodes), call):
        run = list(same)
        if len(run) > MOST_OF_A_CALL:
            code = run[0][1].stack[depths[run[0][1].modules]].code
            found |= {number: (run[0][0], code) for number, _ in run}
    return found


def _shared_depth(nodes: Sequence[Node]) -> int:
    """Number of outer stack lines that all share: the next one is in the innermost shared function."""
    stacks = [[(line.file, line.line) for line in node.stack] for node in nodes if node.stack]
    return sum(1 for _ in itertools.takewhile(lambda lines: len(set(lines)) == 1, zip(*stacks, strict=False)))


def _runs(
    nodes: Sequence[Node],
    module_paths: Sequence[tuple[object, ...]],
    depth: int,
    helpers: Mapping[int, tuple[int, str]] = MappingProxyType({}),
) -> list[Group]:
    """Groups of neighbours with the same outer ``depth`` parts of their paths; all inputs are one group."""

    def module_path(numbered: tuple[int, Node]) -> object:
        number, node = numbered
        if _kind(node) != "operator":
            return _kind(node)
        # Below its own module path, a node is a group of its own.
        itself = helpers[number][0] if number in helpers else number
        return module_paths[number][:depth], itself if depth > len(module_paths[number]) else 0

    runs = [tuple(run) for _, run in itertools.groupby(enumerate(nodes), module_path)]
    # Neighbours only: a group of nodes that are not adjacent could need its own result, and arrows would go backwards.
    return [Group(tuple(node for _, node in run), code=_call_of(run, helpers)) for run in runs]


def _call_of(run: Sequence[tuple[int, Node]], helpers: Mapping[int, tuple[int, str]]) -> str:
    calls = {helpers.get(number) for number, _ in run}
    only = next(iter(calls)) if len(calls) == 1 else None
    return only[1] if only else ""


MOST_PERIOD = 200
"""A region that repeats has no more groups than this."""


def _without_repetitions(groups: list[Group]) -> list[Group]:
    """The first of a region's repetitions as it is, all others as one: ``11 times the same``."""
    looks = [tuple((node.target, node.shape) for node in group.nodes) for group in groups]
    # a b c a b c a b c d: with period 3, six elements in a row equal the one 3 before them, up to index 9. So run =
    # 6, end = 9: the first a b c is drawn, and the rest is 6 // 3 = 2 times the same.
    longest = max(
        ((run, period, end) for period in range(1, min(len(groups) // 2, MOST_PERIOD) + 1)
         for run, end in _equal_runs(looks, period) if run >= period and run > 2),
        default=None,
    )  # fmt: skip
    if longest is None:
        return groups
    run, period, end = longest
    times = run // period
    # The run ends before `end`: all of it repeats the period before it. The remainder stays as it is.
    first = end - run
    folded = tuple(node for group in groups[first : first + times * period] for node in group.nodes)
    rest = _without_repetitions(groups[first + times * period :])
    return [*groups[:first], Group(folded, times), *rest]


def _equal_runs(looks: Sequence[object], period: int) -> Iterator[tuple[int, int]]:
    """Lengths and ends of the longest periodic stretches."""
    run = 0
    for index in range(period, len(looks)):
        if looks[index] == looks[index - period]:
            run += 1
            continue
        if run:
            yield run, index
        run = 0
    if run:
        yield run, len(looks)


def _divided(groups: list[Group], finer: list[Group], most: int) -> list[Group]:
    """A few groups, each cut into pieces of so many of the finer groups inside it that there are enough to see."""
    # Rounded up. Each coarse group may end in a piece that is not full, and kinds are not mixed: hence twice.
    size = -(-len(finer) // max(most - 2 * len(groups), 1))
    # Of each finer group, the coarse one that it is in: the last that began at or before it.
    begins = {group.nodes[0].id: number for number, group in enumerate(groups)}
    owners = list(itertools.accumulate(finer, lambda owner, group: begins.get(group.nodes[0].id, owner), initial=0))[1:]
    alike = itertools.groupby(
        zip(owners, finer, strict=True), lambda pair: (pair[0], pair[1].times, _kind(pair[1].nodes[0]))
    )
    return [
        Group(tuple(node for _, each in piece for node in each.nodes), times)
        for (_, times, _), same in alike
        for piece in _batched(list(same), size if times == 1 else 1)
    ]


def _chunks(groups: list[Group], most: int) -> list[Group]:
    """Equal numbers of neighbouring groups together; inputs, operators and output stay apart."""
    # Inputs, operators and the output are divided each by itself, and each may have one chunk that
    # is not full: hence 3.
    size = -(-len(groups) // max(most - 3, 1))
    alike = itertools.groupby(groups, lambda group: _kind(group.nodes[0]))
    return [
        Group(tuple(node for group in chunk for node in group.nodes))
        for _, same in alike
        for chunk in _batched(list(same), size)
    ]


def _batched(groups: list[Item], size: int) -> Iterator[list[Item]]:
    for begin in range(0, len(groups), size):
        yield groups[begin : begin + size]


_KINDS = {"placeholder": "input", "get_attr": "input", "output": "output"}


def _kind(node: Node) -> str:
    return _KINDS.get(node.op, "operator")


def _box(group: Group, reads: tuple[int, ...]) -> Box:
    first, ids = group.nodes[0], tuple(node.id for node in group.nodes)
    kind = _kind(first)
    # From here on: several nodes, an input, the output, and an operator by itself.
    if group.times > 1 or len(group.nodes) > 1:
        return Box(ids, kind if kind == "input" else "fold", *_fold(group, kind), reads)
    if kind == "input":
        return Box(ids, kind, _end_of(facts.readable(first.source) or first.name), facts.type_of(first), reads)
    if kind == "output":
        return Box(ids, kind, "output", "", reads)
    target, type_ = facts.short_target(first.target), facts.type_of(first)
    named = [first.name] if first.name != target else []  # the title says it
    return Box(ids, kind, _clipped(target), _clipped(": ".join([*named, *([type_] if type_ else [])]), 40), reads)


def _fold(group: Group, kind: str) -> tuple[str, str]:
    """Title and detail of a box of several nodes."""
    how_many = facts.count(len(group.nodes), "input" if kind == "input" else "operator")
    if group.times > 1:
        return f"and {group.times} times the same", how_many
    names = (node.name if kind == "input" else facts.short_target(node.target) for node in group.nodes)
    module = _common_module(group.nodes) if not group.code else ""
    if module and kind == "operator":
        return _end_of(facts.readable(module)), how_many
    code = (group.code or _common_code(group.nodes)) if kind == "operator" else ""
    return _clipped(code or facts.shortened(dict.fromkeys(names), 3)), how_many


def _common_module(nodes: Sequence[Node]) -> str:
    """Innermost module that contains all nodes."""
    shared = ""
    for paths in zip(*(node.modules for node in nodes), strict=False):
        if len(set(paths)) > 1:
            break
        shared = paths[0]
    return shared


def _common_code(nodes: Sequence[Node]) -> str:
    """The innermost line of the user's that led to all of them."""
    code = ""
    for lines in zip(*(node.stack for node in nodes), strict=False):
        if len({(line.file, line.line) for line in lines}) > 1:
            break
        code = lines[0].code
    return code


def _clipped(text: str, most: int = 34) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _end_of(path: str, most: int = 34) -> str:
    """Parameters of a model differ in how their paths end."""
    return path if len(path) <= most else "…" + path[1 - most :]


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
            # Parameters that are folded into one box are read everywhere: their arrows would hide all others.
            if shown[read].kind != "input" or len(shown[read].nodes) == 1:
                result.edge(f"n{read}", f"n{index}")
    return result


def escaped(text: str) -> str:
    """Text as a DOT label that is drawn literally, whatever it holds."""
    # Backslashes of the text first: the one in "\n" is DOT's own line break.
    return html.escape(text, quote=False).replace("\\", "\\\\").replace("\n", "\\n")


# --- DOT to places -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Places in pixels, the origin at the top left."""

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
