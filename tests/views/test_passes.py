"""Below the captured graph: pictures of the ATen graphs, the diff of each pass, the traffic of each line."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import re

import pytest
import torch

import nbcompile
from nbcompile import api
from nbcompile.record.model import Node
from nbcompile.views import annotated_source, boxes, costs, facts, html, passes, text
from tests.views import sample_records as sample
from tests.views.test_html import Page, drawings


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(4, 8)

    def forward(self, x):
        return torch.relu(self.up(x)).sum()


@functools.cache
def trained():
    nbcompile.reset()
    torch.manual_seed(0)
    function, frame_recorder = nbcompile.compile(Layer(), backend="aot_eager"), api.new_recorder("Layer")
    with frame_recorder.listening():
        function(torch.ones(2, 4)).backward()
    return frame_recorder.record()


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v


@functools.cache
def attended():
    nbcompile.reset()
    function, frame_recorder = nbcompile.compile(attention), api.new_recorder("attention")
    with frame_recorder.listening():
        function(*(torch.ones(1, 2, 64, 16) for _ in range(3)))  # smaller ones are not fused
    return frame_recorder.record()


def test_forward_and_backward_are_drawn():
    """A picture and a table have each node; inputs have the captured names; the joint graph is drawn in parts."""
    (frame,) = trained().frames
    page = Page(html.render(trained(), ["graph", "aten"], assets=False))
    captured, forward, backward = drawings(page)
    graphs = {each.stage: each for each in frame.compiled_graph.graphs}
    for drawing, graph in ((captured, frame.graph), (forward, graphs["forward"]), (backward, graphs["backward"])):
        assert len(drawing.findall("{*}g")) == len(graph.nodes) <= boxes.MOST_BOXES
    assert "self.up.weight" in [each.text for each in forward.findall(".//{*}text")]
    assert page.tags["table"] == 4, "three of nodes, one of passes"
    assert "Drawn below, as the forward and the backward graph." in page.text
    alts = [value for key, value in page.attributes if key == "alt"]
    assert alts[2].startswith("backward graph of forward: ")


def test_a_picture_that_says_nothing_new_is_left_out():
    """If each operator is one ATen operator, only the FX graph is drawn; on its own, the ATen graph is drawn."""
    record = sample.simple()
    both = html.render(record, ["graph", "aten"], assets=False)
    assert both.count("<img") == 1
    assert "The picture is the FX graph&#39;s" in both or "The picture is the FX graph's" in both
    assert html.render(record, "aten", assets=False).count("<img") == 1


def test_the_diff_of_a_pass_is_the_diff_of_the_graphs():
    """The diff is difflib's of the recorded graphs."""
    for record, stages in (
        (trained(), [("joint", "forward"), ("joint", "backward")]),
        (attended(), [("traced", "inference")]),
    ):
        (frame,) = record.frames
        graphs = {each.stage: each.code.rstrip("\n").split("\n") for each in frame.compiled_graph.graphs}
        page = Page(html.render(record, "aten", assets=False))
        assert [(each.before.stage, each.after.stage) for each in passes.of(frame)] == stages
        for before, after in stages:
            diff = list(difflib.unified_diff(graphs[before], graphs[after], before, after, lineterm="", n=2))
            assert len(diff) > 3
            assert facts.with_short_locations("\n".join(diff)) in page.text
        assert f"{stages[0][0]} → {stages[0][1]}: " in text.render(record, "aten")


def test_a_rewritten_graph_is_kept_as_it_was():
    """Attention has four operators before the rewrite, and one after it."""
    (frame,) = attended().frames
    graphs = {each.stage: [node.target for node in each.nodes] for each in frame.compiled_graph.graphs}
    assert "aten._softmax.default" in graphs["traced"]
    assert "aten._softmax.default" not in graphs["inference"]


def test_a_pass_that_changes_nothing_says_so():
    """A pass without a change is named without a diff, and folded."""
    (frame,) = attended().frames
    same = dataclasses.replace(
        frame.compiled_graph,
        graphs=tuple(dataclasses.replace(each, code="pass") for each in frame.compiled_graph.graphs),
    )
    frame = dataclasses.replace(frame, compiled_graph=same)
    record = dataclasses.replace(attended(), frames=(frame,))
    shown = html.render(record, "aten", assets=False)
    assert re.search("<details><summary>Passes that change nothing here</summary>.*traced → inference", shown)
    assert "Passes that change nothing" not in html.render(attended(), "aten", assets=False)
    assert "traced → inference: nothing changes" in text.render(record, "aten")


@pytest.mark.browser
def test_the_list_of_passes_is_searched(browser_page):
    """The filter searches the diffs, shows the matching passes, and unfolds them."""
    (frame,) = trained().frames
    forward, backward = passes.of(frame)
    (*_, gone) = (
        line for line in forward.diff if line.startswith("-    ") and "#" not in line and line not in backward.diff
    )
    page = browser_page(html.render(trained(), "aten"))
    passes_shown = page.locator("table:has(caption:text('What each pass changed')) > tbody > tr")
    assert passes_shown.count() == 2
    field = page.get_by_label("Filter rows")
    for word, name in ((gone, "joint → forward"), ("joint → backward", "joint → backward")):
        field.fill(word)
        shown = passes_shown.filter(visible=True)
        assert shown.locator("th").inner_text() == name
        assert shown.locator("pre").is_visible()
    field.fill("no such word")
    assert passes_shown.filter(visible=True).count() == 0


# --- what lines cost ---------------------------------------------------------------------------


def moving(x, y):
    z = x @ y
    w = z.t().relu()
    return w[0].sum() + w.numel()


def test_a_line_moves_what_its_operators_read_and_write():
    """Views are free; symbolic sizes have the values of the call."""
    nbcompile.reset()
    function, frame_recorder = nbcompile.compile(moving, backend="eager", dynamic=True), api.new_recorder("moving")
    with frame_recorder.listening():
        function(torch.ones(30, 50), torch.ones(50, 20))
    lines = {
        each.code.strip(): [note.text for note in each.notes if note.kind == "cost"]
        for each in annotated_source.source_lines(
            frame_recorder.record(), frame_recorder.frames[0], facts.links.frame_links(frame_recorder.frames[0])
        )
    }
    assert lines["z = x @ y"] == [f"{round((1500 + 1000 + 600) * 4 / 1000)} kB in eager"]
    assert lines["w = z.t().relu()"] == [f"{2 * 600 * 4} B in eager"]


@pytest.mark.parametrize(
    ("moved", "said"), [(0, "0 B"), (9_999, "9999 B"), (10_000, "10 kB"), (10**7, "10 MB"), (123 * 10**12, "123 TB")]
)
def test_sizes_have_four_digits(moved, said):
    """Sizes have at most four digits."""
    assert costs.words(moved) == said


def test_an_unknown_size_is_no_figure():
    """A line with an unbacked size has no figure."""
    node = Node("0/0.n1", "nonzero", "call_function", "torch.nonzero", "(x,)", shape=("u0", "1"), dtype="int64")
    record = sample.simple()
    graph = dataclasses.replace(record.frames[0].graph, nodes=(node,))
    frame = dataclasses.replace(record.frames[0], graph=graph)
    assert costs.of_line(frame, ("0/0.n1",)) == 0
