"""Input aliasing: inputs that share memory, one of which the graph mutates.

    def f(x, y):          # y = zeros(4), x = y[:3]: the write to y changes x, too
        y.add_(1)
        return x * 2

    def g(x):             # x = TwoTensor(a, b), a wrapper subclass: the graph has the inputs x.a and x
        x.a.add_(1)
        return x * 2

A functional graph reads the old value of the other input. So a graph that mutates an input compares addresses at each
call (an alias check), and falls back to eager where the mutated input overlaps another one. A wrapper subclass is
never compiled together with a tensor that it wraps.

                  first          last
    y  (mutated)  |--------------|
    x                  |------|             overlaps: start < end of the other, both ways

In torch: torch/_functorch/_aot_autograd/runtime_wrappers.py (merge_view_inputs compiles a graph over the common base;
guards on overlaps are ``StorageOverlap``). Read next:
nbcompile/aot/compile.py
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import add
from typing import Any

import torch

from nbcompile import torch_internals

REASON = "an input aliases another input that the graph mutates, or that wraps it; AOTAutograd cannot see that"
OFFSET_REASON = "a view with symbolic sizes, of an input that is mutated and begins inside of its storage, is returned"

_data_ptr = torch.Tensor.data_ptr


def has_aliased_wrapper(inputs: Sequence[Any]) -> bool:
    """Return whether a wrapper subclass among the inputs shares a storage with another input."""
    # Two wrappers count as well: ``_storages`` looks through each to the tensors that it holds.
    tensors = [each for each in inputs if isinstance(each, torch.Tensor)]
    wrappers = [each for each in tensors if torch_internals.is_wrapper(each)]
    return any(
        one is not other and not _storages(one).isdisjoint(_storages(other)) for one in wrappers for other in tensors
    )


@dataclass(frozen=True, slots=True)
class AliasCheck:
    """Inputs of a graph whose addresses are compared at each call."""

    written: tuple[tuple[int, int | None], ...]
    """Positions of mutated inputs, each with its extent in bytes; None: the extent depends on a symbolic size."""
    read: tuple[tuple[int, int | None], ...]
    """Positions of all other inputs that have an address, with their extents."""


def alias_check(written: Sequence[int], examples: Sequence[Any]) -> AliasCheck:
    """Plan the alias check of a graph.

    Args:
        written: positions of the inputs that it mutates.
        examples: an example of each input: tensors, numbers.
    """
    # Extents are from the first element on; torch has no negative strides, so nothing is before it.
    extents = {position: _extent(each) for position, each in enumerate(examples) if _has_address(each)}
    return AliasCheck(
        tuple((position, extents[position]) for position in written if position in extents),
        tuple((position, extent) for position, extent in extents.items() if position not in written),
    )


def with_alias_check(
    compiled: Callable[..., Any], captured: Callable[..., Any], check: AliasCheck
) -> Callable[..., Any]:
    """Call ``compiled``, or ``captured`` where a mutated input overlaps another input.

    Args:
        compiled: the compiled graph, correct for inputs that do not overlap.
        captured: the captured graph, with the same inputs and outputs.
        check: the inputs to compare.
    """
    # The mutated inputs come first: _overlap compares them with each other, and all others with them only.
    positions = [position for position, _ in (*check.written, *check.read)]
    extents = [extent for _, extent in (*check.written, *check.read)]
    # Equal addresses imply equal ranges only if no extent depends on a size of the call.
    is_static, count = None not in extents, len(check.written)
    known: tuple[tuple[int, ...] | None, bool] = (None, False)

    def call(*arguments: Any) -> Any:
        nonlocal known
        tensors = list(map(arguments.__getitem__, positions))
        starts = tuple(map(_data_ptr, tensors))
        # Most calls have the parameters of the previous one. The cached result is read and written as one
        # value, since other threads call, too.
        last_starts, overlaps = known
        if not is_static or starts != last_starts:
            sizes = extents if is_static else map(_known_extent, tensors, extents)
            overlaps = _overlap(list(zip(starts, map(add, starts, sizes), strict=True)), count)
            known = starts, overlaps
        return captured(*arguments) if overlaps else compiled(*arguments)

    torch_internals.hide_from_hook(call.__code__)
    return call


def may_overlap(written: Sequence[int], examples: Sequence[Any]) -> bool:
    """Return whether an overlap is possible: a mutated tensor and another one on the same device."""
    devices = [each.device if _has_address(each) else None for each in examples]
    return any(devices[position] is not None and devices.count(devices[position]) > 1 for position in written)


def _has_address(value: object) -> bool:
    if not isinstance(value, torch.Tensor) or not torch_internals.is_plain(value):
        return False
    return value.layout is torch.strided and not value.is_meta


def share_storage(written: Sequence[int], inputs: Sequence[Any]) -> bool:
    """Return whether a mutated input shares its storage with another one."""
    storages = {position: _storages(each) for position, each in enumerate(inputs) if _has_address(each)}
    written = [position for position in written if position in storages]
    return any(
        not storages[position].isdisjoint(storages[other])
        for position in written
        for other in storages
        if other != position
    )


def _extent(example: torch.Tensor) -> int | None:
    if not all(isinstance(each, int) for each in (*example.shape, *example.stride())):
        return None
    #     float32[2, 3], strides (8, 1)      last element at 8 + 2: 11 elements of 4 bytes
    steps = sum((size - 1) * stride for size, stride in zip(example.shape, example.stride(), strict=True))
    return (steps + 1) * example.element_size() if example.numel() else 0


def _known_extent(tensor: torch.Tensor, extent: int | None) -> int:
    if extent is None:
        extent = _extent(tensor)
        assert extent is not None
    return extent


def _overlap(ranges: Sequence[tuple[int, int]], count: int) -> bool:
    """Return whether one of the first ``count`` ranges overlaps any other range."""
    # Mutated inputs against each other: sorted by address, an overlap starts before the largest end so far.
    written = sorted(ranges[:count])
    end_of_earlier = 0
    for start, end in written:
        if start < end_of_earlier:
            return True
        end_of_earlier = max(end_of_earlier, end)
    # They are disjoint: of those that start before another input's end, the last one has the largest end, too.
    starts = [start for start, _ in written]
    for first, last in ranges[count:]:
        at = bisect_left(starts, last) - 1
        if at >= 0 and first < written[at][1]:
            return True
    return False


def _storages(tensor: torch.Tensor) -> set[int]:
    return {each.untyped_storage()._cdata for each in _inner_tensors(tensor)}


def _inner_tensors(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    if not torch_internals.is_wrapper(tensor):
        yield tensor
        return
    names, _ = tensor.__tensor_flatten__()  # type: ignore[attr-defined]
    for name in names:
        yield from _inner_tensors(getattr(tensor, name))


def loses_offset(metadata: Any, examples: Sequence[Any]) -> bool:
    """Return whether AOTAutograd would return a view of an input at a wrong storage offset.

    A view with symbolic sizes is not replayed: it is created from sizes, strides and offset of what the graph returns.
    If the input is mutated, the graph returns a view of its new value, which begins at the start of its storage.
    """
    return any(
        output.output_type.name == "alias_of_input"
        and metadata.input_info[output.base_idx].mutates_data
        and not _begins_with_its_storage(examples[output.base_idx])
        and _is_symbolic(output.view_meta_sequence)
        for output in metadata.output_info
    )


def _begins_with_its_storage(tensor: torch.Tensor) -> bool:
    offset = tensor.storage_offset()
    return isinstance(offset, int) and offset == 0


def _is_symbolic(views: Any) -> bool:
    return views is None or any(view.has_symbolic_inputs for view in views.sequence)
