"""The nodes that become template kernels, and the template of each."""

from __future__ import annotations

import pytest
import torch

from nbcompile.ir import buffer as ir
from nbcompile.lowering import kernel_launches, kernel_templates, lower, products
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.registry import NoLowering
from tests.support.lowered import traced

GPU = torch.device("cuda", 0)
X, W = torch.randn(4, 8), torch.randn(8, 4)


def product():
    """A graph of one matrix product, and its node."""
    graph = traced(torch.mm, X, W)
    (node,) = graph.graph.find_nodes(op="call_function", target=torch.ops.aten.mm.default)
    return graph, node


def test_marks_of_an_earlier_lowering_are_removed():
    """A product that is rejected in a later lowering of the same graph loses its mark."""
    graph, node = product()
    kernel_templates.mark(graph.graph, GPU, {}, {})
    assert kernel_templates.is_marked(node) and node.meta[products.TEMPLATE] == 1
    kernel_templates.mark(graph.graph, GPU, {node.name: "the library is faster"}, {})
    assert not kernel_templates.is_marked(node)


def test_nothing_is_marked_without_templates():
    """Without a table of templates no node is marked."""
    graph, node = product()
    kernel_templates.mark(graph.graph, GPU, {}, None)
    assert not kernel_templates.is_marked(node)


def test_a_mark_that_is_a_reason_rejects_the_kernel():
    """The reason why a node has no kernel is the text of the error."""
    _, node = product()
    node.meta[kernel_launches.KERNEL] = "the mask has a graph break"
    assert kernel_templates.is_marked(node)
    with pytest.raises(NoLowering, match="the mask has a graph break"):
        kernel_templates.lower_marked(Builder(), node, (), {}, {})


def test_a_marked_product_is_a_reduction():
    """A marked product is a reduction; without the mark it is a call of ATen."""
    graph, node = product()
    for templates, kind in (({}, ir.Reduction), (None, ir.Extern)):
        program = lower(graph, True, False, GPU, None, templates)
        assert any(isinstance(each, kind) for each in program.buffers)
