"""Boxes of a graph's diagram: one box for each node, or, in a big graph, for several nodes.

    60 nodes or fewer      one box for each node
    more                   one box for repetitions of a region, then for a module's operators, then for those of a line
    or a call

Folded are neighbours in program order, so that all arrows still point forward, and no node is lost: each is in one box.

In torch: nothing; torch/fx/passes/graph_drawer.py draws every node. Read next: nbcompile/views/dot.py
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

from nbcompile.record.model import Graph, Node
from nbcompile.views import facts

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
        """Width and height in pixels: those of the text, with padding."""
        letters = max(len(self.title), len(self.detail) * 0.86, 4)
        # The detail has a smaller font (0.86); four letters are the minimum, so that a box can be clicked.
        return round(letters * CHARACTER + 22), 42.0 if self.detail else 28.0


@dataclass(frozen=True, slots=True)
class Group:
    """Neighbours in program order that are drawn as one box: so all arrows still point forward."""

    nodes: tuple[Node, ...]
    times: int = 1
    """Number of repetitions of a region, after the one that is drawn in full, if more than 1."""
    code: str = ""
    """Line of a module's ``forward`` that calls the helper function which creates all of them."""


def boxes(graph: Graph, most: int = MOST_BOXES) -> tuple[Box, ...]:
    """One box per node; in a big graph one per call or line, and one for the repetitions of a region."""
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
    # A program that is no module has lines of its source instead: the nodes of one line are one box.
    by_module = any(node.modules for node in nodes)
    module_paths = [_module_path_of(node, by_module=by_module) for node in nodes]
    helpers = _helper_calls(nodes) if by_module else {}
    deepest = max(map(len, module_paths))
    finer: list[Group] = []
    # From the finest division to the coarsest, until one fits. If that one is much too coarse (a quarter of the
    # limit), boxes of the previous division are used as far as the limit allows.
    for depth in range(deepest + 1, 0, -1):
        groups = _without_repetitions(_runs(nodes, module_paths, depth, helpers))
        if len(groups) <= most:
            return groups if len(groups) > most // 4 or not finer else _divided(groups, finer, most)
        finer = groups
    # Even one box for each outermost module is too many: neighbours are combined by number.
    return _chunks(_runs(nodes, module_paths, deepest) if deepest else [Group((node,)) for node in nodes], most)


def _module_path_of(node: Node, *, by_module: bool) -> tuple[object, ...]:
    """Path of a node, from the outside in: the modules that were called, or the lines."""
    return node.modules if by_module else tuple((line.file, line.line) for line in node.stack)


MOST_OF_A_CALL = 6
"""Operators of one call of a helper function that are drawn one by one where the graph has modules to look at."""


def _helper_calls(nodes: Sequence[Node]) -> dict[int, tuple[int, str]]:
    """Neighbours that a module with submodules creates in one call of a helper function: masks, caches, positions.

    For each such node, by its number: the number of the first node of its call, and the line that calls the helper.
    """
    # Only modules with submodules: in a leaf like Linear, all nodes belong to the module itself.
    callers = {node.modules[:length] for node in nodes for length in range(len(node.modules))}
    depths = {path: _shared_depth([node for node in nodes if node.modules[: len(path)] == path]) for path in callers}
    found: dict[int, tuple[int, str]] = {}

    def call(numbered: tuple[int, Node]) -> object:
        number, node = numbered
        depth = depths.get(node.modules, -1)
        # There is a line below those that the module's nodes share: the operator is created in a
        # function that `forward` calls.
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
    """The first repetition of a region in full, all others as one box: ``11 times the same``."""
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
    """A few groups, each divided into pieces of several finer groups, so that there are enough boxes."""
    # Rounded up, and doubled: each coarse group may end in a piece that is not full, and kinds are not mixed.
    size = -(-len(finer) // max(most - 2 * len(groups), 1))
    # For each finer group, its coarse group: the last that begins at or before it.
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
    """Combine equal numbers of neighbouring groups; inputs, operators and output remain separate."""
    # Inputs, operators and the output are divided separately, and each may have one chunk that is not full: hence 3.
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
    # The cases below: several nodes, an input, the output, a single operator.
    if group.times > 1 or len(group.nodes) > 1:
        return Box(ids, kind if kind == "input" else "fold", *_fold(group, kind), reads)
    if kind == "input":
        return Box(ids, kind, _end_of(facts.readable(first.source) or first.name), facts.type_of(first), reads)
    if kind == "output":
        return Box(ids, kind, "output", "", reads)
    target, type_ = facts.short_target(first.target), facts.type_of(first)
    named = [first.name] if first.name != target else []  # the title contains it
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
    """The innermost line of the user's code that is common to all of them."""
    code = ""
    for lines in zip(*(node.stack for node in nodes), strict=False):
        if len({(line.file, line.line) for line in lines}) > 1:
            break
        code = lines[0].code
    return code


def _clipped(text: str, most: int = 34) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _end_of(path: str, most: int = 34) -> str:
    """The paths of a model's parameters differ at their ends."""
    return path if len(path) <= most else "…" + path[1 - most :]
