"""Boxes of a graph: a large graph is folded, without losing a node."""

from __future__ import annotations

from dataclasses import replace

import torch
from hypothesis import given, strategies as st

import nbcompile
from nbcompile.record.model import Graph, Node, StackLine
from nbcompile.views import boxes
from tests.views import sample_records as sample


@given(st.integers(2, 400), st.integers(8, 60))
def test_a_big_graph_is_folded_and_loses_nothing(length, most):
    """Each node is in exactly one box, there are few boxes, and edges only point forward."""
    graph = sample.long_chain(length).frames[0].graph
    shown = boxes.boxes(graph, most)
    assert [each for box in shown for each in box.nodes] == [node.id for node in graph.nodes]
    assert len(shown) <= most
    assert all(read < index for index, box in enumerate(shown) for read in box.reads)


def test_folding_does_not_need_stacks():
    """A graph without user lines is folded by position, without a stack."""
    graph = sample.long_chain(300).frames[0].graph
    graph = replace(graph, nodes=tuple(replace(node, stack=()) for node in graph.nodes))
    shown = boxes.boxes(graph)
    assert len(shown) <= boxes.MOST_BOXES
    assert {"input", "fold", "output"} <= {box.kind for box in shown}


def test_a_model_is_folded_by_its_modules():
    """A large graph is folded by module, with the modules' names; equal neighbours are merged."""

    class Block(torch.nn.Module):
        def __init__(self, odd):
            super().__init__()
            self.lin, self.odd = torch.nn.Linear(4, 4), odd

        def forward(self, x):
            y = self.lin(x).relu() + x
            return y.sin() if self.odd else y

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.ModuleList(Block(False) for _ in range(6))
            self.second = torch.nn.ModuleList(Block(at % 2 == 1) for at in range(3))

        def forward(self, x):
            for block in self.first:
                x = block(x)
            for block in self.second:
                x = block(x)
            return x.cos()

    frame_recorder = nbcompile.api.new_recorder("net")
    with frame_recorder.listening():
        nbcompile.compile(Net(), backend="eager")(torch.randn(2, 4))
    graph = frame_recorder.record().frames[0].graph
    assert graph.nodes[-2].modules == ()
    assert graph.nodes[-3].modules[0].endswith(".second.2")
    shown = boxes.boxes(graph, 10)
    folds = [(box.title, box.detail) for box in shown if box.kind == "fold"]
    assert folds == [
        ("self.first.0", "3 operators"),
        ("and 6 times the same", "18 operators"),
        ("self.second.1", "4 operators"),
        ("self.second.2", "3 operators"),
    ]
    drawn = [each for box in shown for each in box.nodes]
    assert sorted(drawn) == sorted(node.id for node in graph.nodes)


def helper_node(number: int, modules: tuple[str, ...], *lines: tuple[str, int]) -> Node:
    stack = tuple(StackLine("model.py", line, function, f"{function} line {line}") for function, line in lines)
    return Node(f"0/0.n{number}", f"n{number}", "call_function", "torch.add", "()", modules=modules, stack=stack)


def test_a_helper_that_a_module_calls_is_one_box():
    """A model's mask is a box with the name of its call; blocks, and short helpers, are drawn."""
    nodes = [helper_node(0, ("model",), ("forward", 3))]
    nodes += [helper_node(1 + n, ("model",), ("forward", 4), ("make_mask", 20 + n)) for n in range(9)]
    nodes += [helper_node(20 + n, ("model",), ("forward", 5), ("short", 40 + n)) for n in range(3)]
    for block in range(60):
        name = ("model", f"model.h.{block % 2}{block}")
        nodes += [helper_node(100 + 3 * block + n, name, ("forward", 6), ("block", 60 + n)) for n in range(3)]
    drawn = boxes.boxes(Graph("0/0.captured", "captured", tuple(nodes), ""), most=40)
    assert [(each.title, len(each.nodes)) for each in drawn if "line 4" in each.title] == [("forward line 4", 9)]
    assert len(drawn[0].nodes) == 1
    assert sum("make_mask" in each.title for each in drawn) == 0
