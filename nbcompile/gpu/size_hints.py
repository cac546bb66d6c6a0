"""Sizes as numbers, where a kernel is chosen before they are known: those of the call that a graph is compiled for.

    hints = size_hints(graph)          x: float16[s0, 64], compiled for 16 rows
    hints.number(2 * s0)               32; the code is for all sizes

A size that depends on the elements of a tensor has no such number: SIZE_HINT is taken.

In torch: size_hint of torch/_inductor/sizevars.py. Read next: nbcompile/gpu/templates.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch
from torch import fx

from nbcompile import torch_internals
from nbcompile.ir.buffer import Tensor
from nbcompile.ir.index import Index, product
from nbcompile.ir.kernel import Loop
from nbcompile.ir.layout import SIZE_HINT


@dataclass(frozen=True, slots=True)
class SizeHints:
    """Numbers of symbols, by name."""

    values: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def number(self, size: Index) -> int:
        """A size as a number."""
        return int(size.xreplace({symbol: self.values.get(symbol.name, SIZE_HINT) for symbol in size.free_symbols}))

    def total(self, loops: Sequence[Loop]) -> int:
        """Number of iterations of some loops."""
        return self.number(product([loop.size for loop in loops]))

    def bytes_of(self, tensor: Tensor) -> int:
        """Bytes of the elements of a tensor."""
        return self.number(product(tensor.layout.size)) * tensor.dtype.itemsize

    def of(self, names: Sequence[str]) -> dict[str, int]:
        """Numbers of some symbols."""
        return {name: self.values.get(name, SIZE_HINT) for name in names}


def size_hints(graph_module: fx.GraphModule) -> SizeHints:
    """The hints of the symbols in a graph's inputs."""
    return SizeHints(symbol_hints([node.meta.get("val") for node in graph_module.graph.find_nodes(op="placeholder")]))


def symbol_hints(values: Sequence[Any]) -> dict[str, int]:
    """Symbols of numbers, and of the sizes and strides of tensors, as numbers of the example's call."""
    # A symbol need not be a size of its own: of half of the rows, s0 // 2, the kernel's argument is s0.
    numbers = [number for value in values for number in _numbers(value)]
    return {name: value for number in numbers for name, value in torch_internals.example_symbols(number).items()}


def _numbers(value: Any) -> Sequence[Any]:
    if isinstance(value, torch.Tensor):
        return (*value.shape, *value.stride()) if value.layout == torch.strided else value.shape
    return (value,)
