"""Calls in a captured graph that mutate their first argument."""

from __future__ import annotations

import operator

import pytest
import torch
import torch.fx

from nbcompile.aot.graph_calls import has_own_derivative, is_in_place, name_of_target

LIBRARY = torch.library.Library("nbcompile_graph_calls", "DEF")
LIBRARY.define("twice(Tensor x) -> Tensor")


@pytest.mark.parametrize(("kind", "target", "keywords", "expected"), [
    ("call_method", "t_", {}, True),
    ("call_method", "t", {}, False),
    ("call_method", "__add__", {}, False),
    ("call_function", operator.iadd, {}, True),
    ("call_function", operator.add, {}, False),
    ("call_function", operator.setitem, {}, True),
    ("call_function", operator.index, {}, False),
    ("call_function", torch.nn.functional.relu, {"inplace": True}, True),
    ("call_function", torch.nn.functional.relu, {"inplace": False}, False),
    ("call_function", torch.relu_, {}, True),
])  # fmt: skip
def test_writes_are_known_by_name_operator_or_keyword(kind, target, keywords, expected):
    """A call mutates if its name ends in one underscore, if it is a mutating operator, or has ``inplace=True``."""
    node = torch.fx.Graph().create_node(kind, target, (1,), keywords)
    assert is_in_place(node) is expected
    assert name_of_target(node) == (target if isinstance(target, str) else target.__name__)


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
