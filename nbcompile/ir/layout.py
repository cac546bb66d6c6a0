"""Layout of a buffer in memory: size, stride, offset.

    torch.empty(2, 3).t()   Layout(size=(3, 2), stride=(1, 3), offset=0)
    element (i0, i1)        at offset i0 + 3*i1 from the data pointer

In torch: torch/_inductor/ir.py (Layout, FixedLayout). Read next:
nbcompile/ir/buffer.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy
import torch

from nbcompile.ir.index import ONE, ZERO, Index, indices, is_one, known_equal, product

SIZE_HINT = 1024
"""Elements: the assumed value of a size that depends on data (an unbacked symbol), for the choice of code."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Size, stride and offset, in elements."""

    size: tuple[Index, ...]
    stride: tuple[Index, ...]
    offset: Index = ZERO

    def at(self, position: Sequence[Index]) -> Index:
        """The memory offset of an element, in elements."""
        terms = [
            term * step
            for coordinate, step in zip(position, self.stride, strict=True)
            if coordinate != 0
            for term in sympy.Add.make_args(coordinate)
        ]
        total = sympy.Add(self.offset, *terms)
        # With atomic strides the products are expanded already; expand() is slow.
        return total if all(step.is_Atom for step in self.stride) else sympy.expand(total)

    @property
    def elements(self) -> Index:
        """Number of elements."""
        return product(self.size)

    @property
    def span(self) -> Index:
        """Number of elements of memory from the data pointer to the last element (0 if there is none)."""
        if any(extent == 0 for extent in self.size):
            return ZERO
        # Not the number of elements: a view has gaps, and an expanded tensor has fewer.
        steps = ((extent - 1) * step for extent, step in zip(self.size, self.stride, strict=True))
        return sympy.expand(sympy.Add(ONE, self.offset, *steps))


def contiguous(size: Sequence[Index]) -> Layout:
    """The row-major layout: the last dimension is contiguous. Strides are torch's (sizes of 0 count as 1)."""
    stride: list[Index] = []
    step: Index = ONE
    for extent in reversed(size):
        stride.append(step)
        step = step * (ONE if extent == 0 else extent)
    return Layout(tuple(size), tuple(reversed(stride)))


def channels_last(size: Sequence[Index]) -> Layout:
    """The channels-last layout of images: batch, height, width, channel."""
    #     position n, c, h, w      memory: for each n, h, w the channels, adjacent
    _, channels, height, width = size
    return Layout(tuple(size), (height * width * channels, ONE, width * channels, channels))


def of_tensor(tensor: torch.Tensor) -> Layout:
    """The layout of a (fake) tensor, counted from its own data pointer."""
    return Layout(indices(tensor.shape), indices(tensor.stride()))


def is_dense(layout: Layout) -> bool:
    """Return whether the elements fill one block of memory without gaps or overlaps, in any order of dimensions."""
    if any(extent == 0 for extent in layout.size):
        return True
    unmatched = [(step, extent) for extent, step in zip(layout.size, layout.stride, strict=True) if not is_one(extent)]
    # From stride 1 on, each dimension has to begin where those before it end: (8, 1, 2) of sizes (3, 2, 4) is 1, 2, 8.
    expected: Index = ONE
    while unmatched:
        matched = next((pair for pair in unmatched if known_equal(pair[0], expected)), None)
        if matched is None:
            return False
        unmatched.remove(matched)
        expected = expected * matched[1]
    return True


def same_addresses(first: Layout, second: Layout) -> bool:
    """Return whether two layouts give every element the same address (strides of size-1 dimensions are ignored)."""
    return (
        len(first.size) == len(second.size)
        and known_equal(first.offset, second.offset)
        and all(map(known_equal, first.size, second.size))
        and all(
            is_one(extent) or known_equal(one, two)
            for extent, one, two in zip(first.size, first.stride, second.stride, strict=True)
        )
    )
