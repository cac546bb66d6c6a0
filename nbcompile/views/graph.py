"""Section of a graph: a diagram, and a table of its nodes.

The picture is an ``<img>``, so that it is shown if scripts and inline SVG are removed, and the page's script makes it
selectable. The equivalent table has the same content, for screen readers, for search, and for graphs that are too big
for a picture.

In torch: torch/fx/passes/graph_drawer.py. Read next: nbcompile/views/source.py
"""

from __future__ import annotations

import re
from dataclasses import replace

from markupsafe import Markup

from nbcompile.record import links
from nbcompile.record.model import CompiledFrame, Graph
from nbcompile.views import boxes, dot, facts, figures, passes, svg
from nbcompile.views.markup import Limits, chip, code, fold, join, listing, prose, row, section, table, tag

_ASSIGNED = re.compile(r"\s+(\w+)(?:: .*?)? = ")
AT_A_GLANCE = 12
"""Number of nodes above which a graph has tools: zoom, search, details of the selection."""
FOLDED = (
    "Folded: a dashed box stands for the operators of a module, line or call, or for what is repeated. "
    "Arrows from folded inputs are left out; the table has everything."
)
NO_LAYOUT = "No picture: neither pygraphviz nor a `dot` program was found. The table says the same."


def render(frame: CompiledFrame, found: links.FrameLinks, limits: Limits) -> Markup:
    """The captured graph of a frame."""
    graph = frame.graph
    if frame.unfinished is not None:
        return _unfinished(frame, frame.unfinished, found, limits)
    if graph is None:
        return section("graph", "FX graph", tag("p", facts.without_graph(frame)), is_open=True)
    about = f"{facts.count(len(links.operators(graph)), 'operator')}, as captured"
    return section(
        "graph", "FX graph", body(frame.function, graph, found, limits), about=about, figures=_COUNTED, is_open=True
    )


def _unfinished(frame: CompiledFrame, graph: Graph, found: links.FrameLinks, limits: Limits) -> Markup:
    """Partial graph of a frame that is not compiled, up to the operator that fails."""
    note = tag("p", prose(facts.unfinished(frame)))
    counted = f"unfinished.{figures.OPERATORS}"
    about = f"{facts.count(len(links.operators(graph)), 'operator')}, not compiled"
    drawn = body(frame.function, graph, found, limits, failed=frame.failed.node if frame.failed else "")
    return section("graph", "FX graph", note, drawn, about=about, figures=counted, is_open=True)


_COUNTED = f"graph.{figures.OPERATORS}"


def body(function: str, graph: Graph, found: links.FrameLinks, limits: Limits, failed: str = "") -> Markup:
    """Picture, equivalent table and code of any graph; ``failed`` is the id of an operator to mark."""
    drawn = picture(function, graph, found, failed)
    return join([
        drawn or tag("p", NO_LAYOUT, class_="n-quiet"),
        fold("Table", nodes_table(graph, found, limits), is_open=drawn is None),
        fold("Code", _program(graph, found, limits)) if graph.code else None,
    ])  # fmt: skip


def picture(function: str, graph: Graph, found: links.FrameLinks, failed: str = "") -> Markup | None:
    """The drawing of the graph; None if it is empty or there is no layout engine."""
    shown = boxes.boxes(graph)
    arrangement = dot.arrange(shown) if shown else None
    if arrangement is None:
        return None
    # After the layout, which is the same with and without a mark.
    shown = tuple(replace(box, kind="failed") if failed in box.nodes else box for box in shown)
    names = tuple(node_names(found, *box.nodes) for box in shown)
    inputs = sum(node.op == "placeholder" for node in graph.nodes)
    alt = (
        f"{facts.stage(graph)} graph of {function}: {facts.count(inputs, 'input')}, "
        f"{facts.count(len(links.operators(graph)), 'operator')}; the table below lists them"
    )
    drawing = svg.draw(shown, arrangement, names, pale=graph.stage == "unfinished")
    folded = any(len(box.nodes) > 1 for box in shown)
    note = tag("p", FOLDED, class_="n-quiet") if folded else None
    return join([tag("div", tag("img", src=svg.data_url(drawing), alt=alt), class_="n-graph"), note])


def nodes_table(graph: Graph, found: links.FrameLinks, limits: Limits) -> Markup:
    """The nodes of a graph, one a row."""
    nodes, more = limits.cut(graph.nodes)
    rows = []
    for node in nodes:
        line = links.own_line(found.frame, node.stack)
        what = chip(node.op) if node.op in ("placeholder", "output", "get_attr") else code(node.target)
        source = (" ", code(facts.readable(node.source))) if node.source else None
        rows.append(row(
            tag("th", code(node.name)), (what, source), code(node.arguments),
            facts.type_of(node), line or "",
            nodes=node_names(found, node.id),
        ))  # fmt: skip
    head = ("node", "target", "arguments", "type", "line")
    return join([table(f"Nodes of the {facts.stage(graph)} graph", head, rows), more])


def aten(frame: CompiledFrame, found: links.FrameLinks, limits: Limits, *, drawn_captured: bool) -> Markup | None:
    """Render the functional ATen graphs; ``drawn_captured``: the page has the diagram of the captured graph, too."""
    graphs = frame.compiled_graph.graphs if frame.compiled_graph else ()
    if not graphs:
        return None
    parts = []
    for index, graph in enumerate(_with_sources(each, frame.graph) for each in graphs):
        counted = f"compiled_graph.graphs.{index}.{figures.OPERATORS}"
        title = (tag("b", facts.stage(graph)), f" {facts.count(len(links.operators(graph)), 'operator')}")
        note = _why_not_drawn(frame.graph if drawn_captured else None, graph)
        shown = (
            join((tag("p", note, class_="n-quiet"), _program(graph, found, limits)))
            if note
            else body(frame.function, graph, found, limits)
        )
        parts.append(fold(title, shown, figures=counted, is_open=graph.stage in ("inference", "forward")))
    return section("aten", "ATen graphs", parts, passes.render(frame, limits), about="functional: what lowering sees")


def _with_sources(graph: Graph, captured: Graph | None) -> Graph:
    """Graph with its inputs named as in the captured graph: ``primals_1`` is ``self.weight``."""
    known = {node.id: node.source for node in captured.nodes if node.source} if captured else {}
    nodes = tuple(
        replace(node, source=known.get(node.from_nodes[0], ""))
        if node.op == "placeholder" and node.from_nodes
        else node
        for node in graph.nodes
    )
    return replace(graph, nodes=nodes)


def _why_not_drawn(captured: Graph | None, graph: Graph) -> str:
    """Sentence that replaces a redundant diagram; "" if the diagram is drawn."""
    if graph.stage == "joint":
        return "Drawn below, as the forward and the backward graph."
    if captured is not None and _is_one_to_one(captured, graph):
        return "The picture is the FX graph's: each of its operators became one of ATen."
    return ""


def _is_one_to_one(captured: Graph, graph: Graph) -> bool:
    """Return whether each captured node became one node, with the same inputs."""
    origin = {node.id: node.from_nodes for node in graph.nodes}
    # A node that derives from two (after a fusion), or a captured node that became two, needs a picture of its own.
    if len(graph.nodes) != len(captured.nodes) or any(len(each) > 1 for each in origin.values()):
        return False
    for old, new in zip(captured.nodes, graph.nodes, strict=True):
        origin_ids = new.from_nodes or (old.id,) * (new.op == old.op != "call_function")
        reads = {each for one in new.inputs for each in origin.get(one) or (one,)}
        if origin_ids != (old.id,) or (new.op != "output" and reads != set(old.inputs)):
            return False
    return True


def _program(graph: Graph, found: links.FrameLinks, limits: Limits) -> Markup:
    """The code of a graph, each line linked to the node that it names: ``add: "f32[8]" = ...``."""
    by_name = {node.name: node.id for node in graph.nodes}
    assigned = [_ASSIGNED.match(line) for line in graph.code.split("\n")]
    lines = [by_name.get(match[1], "") if match else "" for match in assigned]
    return listing(
        facts.with_short_locations(graph.code), limits=limits, nodes=lambda index: node_names(found, lines[index])
    )


def node_names(found: links.FrameLinks, *ids: str) -> str:
    """Link names of the captured nodes that some ids derive from: ``n1 n4``.

    Inside one frame the prefix of the frame is redundant; without it outputs are smaller.
    """
    return words(found.captured(*ids))


def words(ids: tuple[str, ...]) -> str:
    """Link words of captured node ids: the part after the compile id; consecutive ones are combined, ``n3..9``."""
    names = [each.rpartition(".")[2].replace(" ", "_") for each in ids]
    numbers = sorted({int(each[1:]) for each in names if _NUMBERED.fullmatch(each)})
    if len(numbers) < len(names) or len(numbers) < _RUN:
        return " ".join(names)
    #     n3 n4 n5 n6 n9     ->     n3..6 n9
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return " ".join(
        f"n{run[0]}..{run[-1]}" if len(run) >= _RUN else " ".join(f"n{each}" for each in run) for run in runs
    )


_NUMBERED = re.compile(r"n\d+")
_RUN = 4
"""Number of adjacent ids that are written as a range."""
