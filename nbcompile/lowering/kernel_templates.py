"""Nodes that become a kernel of a template: the code of the loops is given, and the graph fills in its operands.

    aten.mm(x, w)                    marked: a product in Triton, with what follows it in the same kernel
    aten.mm(x, w), in fallbacks      not marked: one call of ATen
    flex_attention, marked "..."     NoLowering: the reason why its kernel cannot be used

A node is marked before the graph is lowered, because the choice depends on other nodes and on
measurements (gpu/templates.py).

In torch: torch/_inductor/kernel/ and select_algorithm.py. Read next: nbcompile/lowering/products.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

from nbcompile.lowering import (
    convolution,
    convolution_product,
    flex_attention,
    grouped_products,
    kernel_launches,
    linear_cross_entropy,
    products,
)
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.registry import NoLowering


def mark(
    graph: fx.Graph, device: torch.device | None, fallbacks: Mapping[str, str], templates: Mapping[str, int] | None
) -> None:
    """Mark the products and convolutions that become kernels."""
    products.mark(graph, device, fallbacks, templates)
    convolution_product.mark(graph, device, fallbacks, templates)


def is_marked(node: fx.Node) -> bool:
    """Return whether a node becomes a kernel of a template."""
    return products.TEMPLATE in node.meta or kernel_launches.KERNEL in node.meta


def lower_marked(build: Builder, node: fx.Node, args: Any, kwargs: Any, values: Mapping[fx.Node, Any]) -> Any:
    """Lower a marked node to a kernel of its template.

    Raises:
        NoLowering: the mark is the reason why no kernel can compute the node.
    """
    if node.target is convolution.CONVOLUTION:
        return convolution_product.lower_convolution(build, node, args)
    if products.TEMPLATE in node.meta:
        return products.lower_product(build, node, args, kwargs)
    marked = node.meta[kernel_launches.KERNEL]
    if isinstance(marked, str):
        raise NoLowering(marked)
    if isinstance(marked, grouped_products.GroupedLaunch):
        return grouped_products.lower_grouped_product(build, node, marked, values)
    if isinstance(marked, linear_cross_entropy.CrossEntropyLaunch):
        return linear_cross_entropy.lower_linear_cross_entropy(build, node, marked, values)
    return flex_attention.lower_flex_attention(build, node, marked, values)
