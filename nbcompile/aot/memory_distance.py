"""Test whether two tensors of one storage share memory, for every call that a compiled graph serves.

    y[2:5], y[10:13]                    numbers decide
    y[i:i+3], y[j:j+3]                  apart in this call: a guard says i + 3 <= j
    y[:, :k], y[:, k:]                  apart within each row: a guard says that a row ends before the next one

A graph whose tensors overlap in the captured call falls back to eager, which is right for every other call, too.
Tensors that do not overlap must stay apart: a guard on the sizes ensures it, or the result is that they may overlap.

In torch: nothing; torch.compile reads all before it writes. Read next: nbcompile/aot/overlapping_operands.py
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from nbcompile import torch_internals

Number = Any
"""An int, or a size that is a symbol."""


def same_layout(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors of one storage have the same elements in the same order, now and in later calls."""
    pairs = list(zip(_layout(one), _layout(other), strict=False))
    # No guard on an unbacked size is possible: there equal formulas are equal, and all others count as different.
    if one.dim() != other.dim() or any(torch_internals.is_unbacked(number) for pair in pairs for number in pair):
        return one.dim() == other.dim() and all(str(first) == str(second) for first, second in pairs)
    # All examples first: a guard on one pair would be useless if the next pair differs.
    return _are_equal_now(pairs) and all(bool(first == second) for first, second in pairs)


def share_bytes(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Return whether two tensors of one storage have a byte in common, or may have one in a later call."""
    if not any(isinstance(number, torch.SymInt) for number in (*_layout(first), *_layout(second))):
        return _share_bytes_now(first, second)
    if any(map(torch_internals.is_unbacked, (*_layout(first), *_layout(second)))):
        return True
    if first.numel() == 0 or second.numel() == 0:  # a guard, as each size that is 0 has already
        return False
    # If they overlap in this call, True is right for every call;
    # only "apart" needs a guard to stay true.
    return _share_bytes_now(first, second) or not _stay_apart(_Region(first), _Region(second))


def _layout(tensor: torch.Tensor) -> tuple[Number, ...]:
    return (tensor.storage_offset(), *tensor.shape, *tensor.stride())


def _are_equal_now(pairs: Sequence[tuple[Number, Number]]) -> bool:
    return all(_now(first) == _now(second) for first, second in pairs)


def _now(number: Number) -> int:
    return int(torch_internals.example_of(number))


class _Region:
    """The memory of a tensor: its first byte, and its dimensions as (step in bytes, size)."""

    def __init__(self, tensor: torch.Tensor) -> None:
        width = tensor.element_size()
        self.start: Number = tensor.storage_offset() * width
        self.dimensions = [
            (stride * width, size) for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if _now(size) > 1
        ]
        self.width = width

    def end(self) -> Number:
        """The byte after the last one."""
        return self.start + sum((size - 1) * step for step, size in self.dimensions) + self.width

    def drop(self, dimension: tuple[Number, Number]) -> None:
        """Restrict the region to the first index of a dimension."""
        self.dimensions.remove(dimension)


def _stay_apart(first: _Region, second: _Region) -> bool:
    """Add a guard that two regions which are apart stay apart; False if no such guard is known."""
    while True:
        for lower, upper in ((first, second), (second, first)):
            # Of symbols, ``_now`` compares the examples, and ``bool`` of a comparison adds it as a guard.
            if _now(lower.end()) <= _now(upper.start):
                return bool(lower.end() <= upper.start)
        # Rows of one matrix: where both have the same steps from row to row, and all else fits between two rows, only
        # parts of one row can overlap.
        outermost = [
            max(region.dimensions, key=lambda dimension: _now(dimension[0]), default=None) for region in (first, second)
        ]
        one, other = outermost
        if one is None or other is None or not _are_equal_now([(one[0], other[0]), (one[1], other[1])]):
            return False
        first.drop(one)
        second.drop(other)
        # First by the examples of both, and then as guards: a useless guard would cause recompilations.
        for lower, upper in ((first, second), (second, first)):
            if _now(upper.end() - lower.start) > _now(one[0]):
                return False
        #     row 0   |ffff....ss|   the first region is in f, the second in s
        #     row 1   |ffff....ss|   apart, if each ends before the other begins again, one step of the rows later
        if not (one[0] == other[0] and one[1] == other[1]):
            return False
        if not all(bool(upper.end() - lower.start <= one[0]) for lower, upper in ((first, second), (second, first))):
            return False


# -- with numbers ------------------------------------------------------------------------------------------------------


def _share_bytes_now(first: torch.Tensor, second: torch.Tensor) -> bool:
    # A common byte: start + sum of (count * step) is equal in the two, so that the steps of one minus those of
    # the other add up to the distance of their starts. One row of the search is (step, lowest count, highest count).
    first_steps, second_steps = _steps(first), _steps(second)
    distance = _start(second) - _start(first)
    # The first takes a step 0 to n times, the second 0 to m times: their difference takes it -m to n times.
    steps = sorted({*first_steps, *second_steps}, reverse=True)
    times = [(step, -second_steps.get(step, 0), first_steps.get(step, 0)) for step in steps]
    return first.numel() != 0 and second.numel() != 0 and _reaches(distance, times)


def _reaches(distance: int, times: Sequence[tuple[int, int, int]]) -> bool:
    """True if steps, each taken between its lowest and highest count, add up to a distance; the largest step first."""
    if not times:
        return distance == 0
    (step, least, most), rest = times[0], times[1:]
    lowest = sum(size * few for size, few, _ in rest)
    highest = sum(size * many for size, _, many in rest)
    # The smaller steps must be able to cover the rest: so few counts are tried.
    first = max(least, -((highest - distance) // step))
    last = min(most, (distance - lowest) // step)
    return any(_reaches(distance - step * count, rest) for count in range(first, last + 1))


def _start(tensor: torch.Tensor) -> int:
    return _now(tensor.storage_offset()) * tensor.element_size()


def _steps(tensor: torch.Tensor) -> dict[int, int]:
    """Highest count of each step in memory, by its size in bytes."""
    # The bytes of one element are steps of size 1: views of two dtypes may share a part of an element.
    steps = {1: tensor.element_size() - 1} if tensor.element_size() > 1 else {}
    for stride, size in _dimensions(tensor):
        step = stride * tensor.element_size()
        if step and size > 1:
            steps[step] = steps.get(step, 0) + size - 1
    return steps


def _dimensions(tensor: torch.Tensor) -> Iterator[tuple[int, int]]:
    for stride, size in zip(tensor.stride(), tensor.shape, strict=True):
        yield _now(stride), _now(size)
