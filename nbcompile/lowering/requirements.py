"""Requirements of a graph that is lowered: strided tensors of plain dtypes, and sizes that are known.

    x: sparse            UnsupportedGraph: a tensor is not strided
    x.nonzero()          UnsupportedGraph: a size depends on data

In torch: nothing. Read next: nbcompile/lowering/graph.py
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from nbcompile.ir.index import index
from nbcompile.lowering.registry import UnsupportedGraph


def require_strided(node: fx.Node, tensor: torch.Tensor) -> None:
    """Reject a tensor that is not plain numbers at strides: sparse, quantized, nested, or with the negative bit."""
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested:
        raise UnsupportedGraph(f"{node.name} is not a strided tensor")
    # Example: the imaginary part of a conjugated tensor. A kernel would read the stored numbers, with the wrong sign.
    if tensor.is_neg():
        raise UnsupportedGraph(f"{node.name} has the negative bit")


_QUANTIZED_DTYPES = frozenset({torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4})


def require_plain_dtype(node: fx.Node) -> None:
    """Reject an operator that makes a quantized tensor: its fake tensor says float32, and is not quantized."""
    arguments = (*node.args, *node.kwargs.values())
    if any(isinstance(argument, torch.dtype) and argument in _QUANTIZED_DTYPES for argument in arguments):
        raise UnsupportedGraph(f"{node.name} is a quantized tensor")


def require_known_sizes(node: fx.Node, predicted: Any) -> None:
    """Reject results whose sizes or strides are unbacked symbols."""
    for tensor in predicted if isinstance(predicted, (tuple, list)) else [predicted]:
        if isinstance(tensor, torch.Tensor):
            require_strided(node, tensor)
            for extent in (*tensor.shape, *tensor.stride()):
                if isinstance(extent, torch.SymInt) and any(str(s).startswith("u") for s in index(extent).free_symbols):
                    raise UnsupportedGraph(f"{node.name}: the size {extent} depends on data")
