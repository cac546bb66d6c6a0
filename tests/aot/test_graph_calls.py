"""Calls in a captured graph: the arguments that they write to.

Read next: tests/aot/test_self_overlapping_writes.py
"""

from __future__ import annotations

import operator

import pytest
import torch
import torch.fx

from nbcompile.aot.graph_calls import has_own_derivative, is_in_place, name_of_target, written_arguments

LIBRARY = torch.library.Library("nbcompile_graph_calls", "DEF")
LIBRARY.define("twice(Tensor x) -> Tensor")
LIBRARY.define("swap(Tensor(a!) x, Tensor y, *, Tensor(b!)[] rest) -> ()")


@pytest.mark.parametrize(("kind", "target", "keywords", "expected"), [
    ("call_method", "t_", {}, True),
    ("call_method", "t", {}, False),
    ("call_method", "__add__", {}, False),
    ("call_method", "__iadd__", {}, True),
    ("call_method", "__setitem__", {}, True),
    ("call_method", "__invert__", {}, False),
    ("call_function", operator.iadd, {}, True),
    ("call_function", operator.add, {}, False),
    ("call_function", operator.setitem, {}, True),
    ("call_function", operator.index, {}, False),
    ("call_function", torch.nn.functional.relu, {"inplace": True}, True),
    ("call_function", torch.nn.functional.relu, {"inplace": False}, False),
    ("call_function", torch.relu_, {}, True),
    ("call_function", torch.ops.aten.relu_, {}, True),
    ("call_function", torch.ops.aten.relu_.default, {}, True),
    ("call_function", torch.ops.aten.relu.default, {}, False),
])  # fmt: skip
def test_writes_are_known_by_name_operator_or_keyword(kind, target, keywords, expected):
    """A call mutates if its name ends in one underscore, if it is a mutating operator, or has ``inplace=True``."""
    node = torch.fx.Graph().create_node(kind, target, (1,), keywords)
    assert is_in_place(node) is expected
    assert name_of_target(node) == (target if isinstance(target, str) else target.__name__.partition(".")[0])


SWAP = torch.ops.nbcompile_graph_calls.swap
F = torch.nn.functional


@pytest.mark.parametrize(("target", "arguments", "keywords", "expected"), [
    (torch.add, "xy", {}, ""),
    (torch.add, "xy", {"out": "z"}, "z"),
    (torch.aminmax, "x", {"out": ["y", "z"]}, "yz"),
    (torch.detach_, "", {"input": "x"}, "x"),
    (operator.iadd, "xy", {}, "x"),
    (torch._foreach_add_, [["x", "y"], "z"], {}, "xy"),
    (torch._foreach_add_, "", {"self": ["x", "y"], "other": "z"}, "xy"),
    (torch.ops.aten.add_, "xy", {}, "x"),
    (torch.ops.aten.add_.Tensor, "", {"self": "x", "other": "y"}, "x"),
    (torch.ops.aten.add.out, "xy", {"out": "z"}, "z"),
    (torch.ops.aten.add.Tensor, "xy", {}, ""),
    (torch.ops.aten._foreach_add_.List, [["x", "y"], ["z", "z"]], {}, "xy"),
    (SWAP, "xy", {"rest": ["z"]}, "xz"),
    (SWAP.default, "", {"x": "y", "y": "x", "rest": []}, "y"),
    (F.relu, ["x", True], {}, "x"),
    (F.threshold, ["x", 1.0, 2.0, True], {}, "x"),
    (F.threshold, ["x", 1.0, 2.0, False], {}, ""),
    (F.threshold, ["x", 1.0, 2.0], {}, ""),
    (F.dropout, ["x", 0.5, True, True], {}, "x"),
    (F.linear, "xy", {}, ""),
])  # fmt: skip
def test_arguments_that_a_call_writes_to(target, arguments, keywords, expected):
    """The schema of an operator, ``out``, ``inplace`` and the name say which arguments are written."""
    graph = torch.fx.Graph()
    inputs = {name: graph.placeholder(name) for name in "xyz"}
    given = torch.utils._pytree.tree_map(lambda leaf: inputs.get(leaf, leaf), (list(arguments), keywords))
    node = graph.call_function(target, tuple(given[0]), given[1])
    assert "".join(written.name for written in written_arguments(node)) == expected


def test_an_input_is_not_written_by_itself():
    """A node that is no call writes to nothing."""
    assert written_arguments(torch.fx.Graph().placeholder("x_")) == []


@pytest.mark.parametrize(("target", "expected"), [
    (torch.ops.higher_order.autograd_function_apply, True),
    (torch.ops.nbcompile_graph_calls.twice, True),
    (torch.ops.nbcompile_graph_calls.twice.default, True),
    (torch.ops.aten.add, False),
    (torch.ops.aten.add.Tensor, False),
    (torch.relu, False),
])  # fmt: skip
@pytest.mark.parametrize("nested", [False, True])
def test_derivatives_of_the_program_are_known(target, expected, nested):
    """An ``autograd.Function`` or a custom operator is a derivative of the program, in a nested graph, too."""
    graph = torch.fx.Graph()
    graph.create_node("call_function", target, (graph.placeholder("x"),))
    module = torch.fx.GraphModule({}, graph)
    outer = torch.fx.GraphModule({}, torch.fx.Graph())
    outer.add_submodule("inner", module)
    assert has_own_derivative(outer if nested else module) is expected


def test_the_overloads_of_a_packet_stay_the_same_objects():
    """A look at a packet creates no overload again: the compile cache finds an overload by its name."""
    before = SWAP.default
    graph = torch.fx.Graph()
    written_arguments(graph.call_function(SWAP, (graph.placeholder("x"), graph.placeholder("y"))))
    assert SWAP.default is before
