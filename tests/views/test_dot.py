"""Graphs as DOT: labels are literal, and boxes have a layout."""

from __future__ import annotations

import html
import re

import graphviz
import pytest

from nbcompile.views import boxes, dot
from tests.views import sample_records as sample

NASTY = [
    "<lambda>",
    "<b>bold",
    "a\\N\\l\\G",
    "x\ny",
    'say "hi"',
    "&lt;",
    "javascript:alert(1)",
    "<resume in f at 12>",
    "\\",
]


@pytest.mark.parametrize("text", NASTY)
def test_labels_are_drawn_literally(text):
    """Graphviz takes ``<...>`` for markup and backslashes for escapes; our labels are literal."""
    pygraphviz = pytest.importorskip("pygraphviz", reason="labels are checked on a real drawing")
    graph = graphviz.Digraph()
    graph.node("n0", label=dot.escaped(text))
    drawn = pygraphviz.AGraph(string=graph.source).draw(format="svg", prog="dot").decode()
    assert "\n".join(html.unescape(line) for line in re.findall(r"<text[^>]*>(.*?)</text>", drawn)) == text
    assert "href" not in drawn


@pytest.mark.parametrize("name", ["simple", "save_break", "mutating"])
def test_a_small_graph_is_drawn_whole(name):
    """The drawing has one box per node and one edge per use, all with positions."""
    graph = sample.ALL[name]().frames[0].graph
    shown = boxes.boxes(graph)
    assert [box.nodes for box in shown] == [(node.id,) for node in graph.nodes]
    arrangement = dot.arrange(shown)
    uses = {(box.reads[k], i) for i, box in enumerate(shown) for k in range(len(box.reads))}
    assert {(tail, head) for tail, head, _ in arrangement.arrows} == uses
    for (x, y), box in zip(arrangement.centres, shown, strict=True):
        assert box.size[0] / 2 - 1 <= x <= arrangement.width - box.size[0] / 2 + 1
        assert 0 < y < arrangement.height


def test_without_a_layout_engine_there_is_no_arrangement(monkeypatch):
    """Without pygraphviz and without ``dot`` on the PATH the result is None, not an error."""
    monkeypatch.setattr(dot, "pygraphviz", None)
    monkeypatch.setenv("PATH", "")
    dot._plain_layout.cache_clear()
    try:
        assert dot.arrange(boxes.boxes(sample.simple_frame().graph)) is None
    finally:
        dot._plain_layout.cache_clear()


def test_the_dot_object_can_be_kept():
    """The user gets graphviz's class, with a label for each box."""
    digraph = dot.dot(sample.simple_frame().graph)
    assert isinstance(digraph, graphviz.Digraph)
    assert "torch" not in digraph.source, "labels are short names"
    assert 'label="relu\\nf32[1024]"' in digraph.source
