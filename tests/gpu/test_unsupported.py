"""Kernels that cannot be compiled, whose operators run through ATen."""

from __future__ import annotations

import torch
from torch import fx

from nbcompile.gpu import unsupported
from nbcompile.ir.written_kernel import WrittenKernel
from nbcompile.lowering.grouped_products import GroupedLaunch
from nbcompile.lowering.kernel_launches import INSIDE, KERNEL
from nbcompile.scheduling import schedule
from tests.lowering.test_products import lowered


def graph() -> tuple[fx.GraphModule, fx.Node, fx.Node]:
    """A product and its epilogue."""
    made = fx.Graph()
    x = made.placeholder("x")
    product = made.call_function(torch.ops.aten.mm.default, (x, x))
    last = made.call_function(torch.ops.aten.relu.default, (product,))
    made.output((last,))
    return fx.GraphModule({}, made), product, last


def test_a_launch_that_cannot_be_compiled_is_replaced_by_the_reason():
    """The mark of the node becomes the reason; nodes with another name, or without a mark, are unchanged."""
    module, product, last = graph()
    product.meta[KERNEL] = object()
    assert list(unsupported.unmark(module, [last.name], "too large")) == []
    assert list(unsupported.unmark(module, [product.name, last.name], "too large")) == [(product.name, "too large")]
    assert product.meta[KERNEL] == "too large"
    assert KERNEL not in last.meta


def test_an_unsupported_grouped_product_is_called_and_what_follows_is_generated():
    """The reason moves from the last node to the product, and no node is in a kernel any more."""
    module, product, last = graph()
    product.meta[INSIDE] = True
    last.meta[KERNEL] = GroupedLaunch(object.__new__(WrittenKernel), "", product)
    assert list(unsupported.unmark(module, [last.name], "too large")) == [(product.name, "too large")]
    assert product.meta == {KERNEL: "too large"}
    assert KERNEL not in last.meta


def test_an_unsupported_kernel_is_found_by_its_name():
    """The reason of a kernel with another name has no effect."""
    module, _, _ = graph()
    planned = schedule(lowered(torch.mm, torch.randn(33, 40), torch.randn(40, 50)))
    assert list(unsupported.extern_operators(module, planned, {})) == []
    (kernel,) = planned.kernels()
    assert list(unsupported.extern_operators(module, planned, {f"{kernel.name}x": ("no digamma", ())})) == []
