"""Refused kernels, whose operators run through ATen."""

from __future__ import annotations

import torch
from torch import fx

from nbcompile.gpu import refusals
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


def test_a_refused_launch_has_its_reason_in_place_of_the_launch():
    """The mark of a refused node becomes the reason; nodes with another name, or without a mark, are unchanged."""
    module, product, last = graph()
    product.meta[KERNEL] = object()
    assert list(refusals.unmarked(module, [last.name], "too large")) == []
    assert list(refusals.unmarked(module, [product.name, last.name], "too large")) == [(product.name, "too large")]
    assert product.meta[KERNEL] == "too large"
    assert KERNEL not in last.meta


def test_a_refused_grouped_product_is_called_and_what_follows_is_generated():
    """The reason moves from the last node to the product, and no node is in a kernel any more."""
    module, product, last = graph()
    product.meta[INSIDE] = True
    last.meta[KERNEL] = GroupedLaunch(object.__new__(WrittenKernel), "", product)
    assert list(refusals.unmarked(module, [last.name], "too large")) == [(product.name, "too large")]
    assert product.meta == {KERNEL: "too large"}
    assert KERNEL not in last.meta


def test_a_kernel_is_refused_by_its_name():
    """A refusal of another kernel's name has no effect."""
    module, _, _ = graph()
    planned = schedule(lowered(torch.mm, torch.randn(33, 40), torch.randn(40, 50)))
    assert list(refusals.apart(module, planned, {})) == []
    (kernel,) = planned.kernels()
    assert list(refusals.apart(module, planned, {f"{kernel.name}x": ("no digamma", ())})) == []
