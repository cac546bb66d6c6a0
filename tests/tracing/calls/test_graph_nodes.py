"""Nodes of the graph and the trackers of what they compute."""

from __future__ import annotations

import operator

import torch

from nbcompile.capture.node_meta import EXAMPLE
from nbcompile.tracing.calls.graph_nodes import sizes
from nbcompile.tracing.variables.constant import ConstantVariable
from tests.tracing.frame.single_frame import frame_of


def program(x):
    """Two statements."""
    y = x + 1
    return y * 2


def test_an_operator_on_trackers_is_a_node_of_the_graph():
    """The result is a tensor; the operator runs on fake tensors."""
    _, interpreter = frame_of(program, 4)
    three = interpreter.apply(torch.zeros, [ConstantVariable(3)])
    added = interpreter.apply_method("add", [three, ConstantVariable(1)])
    assert [node.target for node in interpreter.output.graph.nodes] == [torch.zeros, "add"]
    assert tuple(added.node.meta[EXAMPLE].shape) == (3,)


def test_what_is_known_while_tracing_needs_no_node():
    """The number of dimensions is a constant, and its node is erased; static sizes and strides are constants, too."""
    _, interpreter = frame_of(program, 4)
    three = interpreter.apply(torch.zeros, [ConstantVariable(3)])
    assert interpreter.apply_method("dim", [three]).value == 1
    assert sizes(interpreter, three, "size").cls is torch.Size
    assert [item.value for item in sizes(interpreter, three, "stride").items] == [1]
    assert [node.target for node in interpreter.output.graph.nodes] == [torch.zeros]


def test_the_result_of_an_operator_with_out_is_the_argument():
    """``torch.add(x, 1, out=z)`` returns the tracker of z itself."""
    _, interpreter = frame_of(program, 4)
    three, out = (interpreter.apply(torch.zeros, [ConstantVariable(3)]) for _ in range(2))
    assert interpreter.apply(torch.add, [three, ConstantVariable(1)], {"out": out}) is out


def test_several_results_are_a_tuple_of_trackers():
    """The graph reads each tensor by its index; the tuple has the class that the operator returns."""
    _, interpreter = frame_of(program, 4)
    three = interpreter.apply(torch.zeros, [ConstantVariable(3)])
    found = interpreter.apply(torch.max, [three, ConstantVariable(0)])
    assert found.cls is torch.return_types.max and len(found.items) == 2
    assert [node.target for node in interpreter.output.graph.nodes][-2:] == [operator.getitem] * 2
