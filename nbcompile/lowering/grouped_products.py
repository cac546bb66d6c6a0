"""Grouped matrix products on a GPU: the launch of a kernel that was generated for the node.

    _grouped_mm(x, w, offsets)      triton_grouped_mm0(x, w, offsets, out)

If a node has no kernel, its mark is the reason.

In torch: torch/_inductor/kernel/mm_grouped.py. Read next: nbcompile/gpu/grouped_products.py
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from nbcompile.ir.layout import of_tensor
from nbcompile.ir.written_kernel import WrittenKernel
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.kernel_launches import add_launch
from nbcompile.lowering.launch_memory import memory_for
from nbcompile.lowering.value import Value

OPERATOR = torch.ops.aten._grouped_mm.default


@dataclass(frozen=True, slots=True)
class GroupedLaunch:
    """The kernel of a grouped product."""

    launch: WrittenKernel
    reason: str
    """Text for the record: why it was chosen."""
    product: fx.Node
    """The node of the product; the marked node is the same one, or the last of its epilogue."""
    operands: tuple[fx.Node, ...] = ()
    """Further tensors that the epilogue reads."""


def lower_grouped_product(build: Builder, node: fx.Node, marked: GroupedLaunch, values: Mapping[fx.Node, Any]) -> Value:
    """Add the launch; return the result."""
    fake = node.meta["val"]
    arguments: Any = (*marked.product.args[:3], *marked.operands)
    names = [name for name in marked.launch.parameters if name != "out"]
    given = {
        name: (values[argument], of_tensor(argument.meta["val"]))
        for name, argument in zip(names, arguments, strict=True)
    }
    result = memory_for(build, fake)
    add_launch(build, marked.launch, {**given, "out": (result, of_tensor(fake))}, ("out",), marked.reason)
    return result
