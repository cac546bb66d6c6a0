"""Inputs that share memory, one of which is written: then a functional graph reads what was there before.

    def f(x, y):          # y = zeros(4), x = y[:3]: after the write x has another value, too
        y.add_(1)
        return x * 2

    def g(x):             # x = TwoTensor(a, b): the graph gets x.a and x
        x.a.add_(1)
        return x * 2

AOTAutograd makes graphs functional for the inputs that it is shown. Whether others overlap is asked at each call of a
graph that writes to an input (a comparison of addresses); if they do, it runs operator by operator, as it was
captured. A tensor inside of a wrapper is never compiled together with the wrapper.

In torch: torch/_functorch/_aot_autograd/runtime_wrappers.py (merge_view_inputs). Read next:
nbcompile/aot/compile.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nbcompile import torch_internals

REASON = "an input is inside of another one, or shares memory with one that is written; AOTAutograd cannot see that"


def has_aliased_wrapper(inputs: Sequence[Any]) -> bool:
    """Whether two inputs have memory in common, one of them being a wrapper around tensors."""
    tensors = [each for each in inputs if isinstance(each, torch.Tensor)]
    wrappers = [each for each in tensors if torch_internals.is_wrapper(each)]
    return any(
        one is not other and not _storages(one).isdisjoint(_storages(other)) for one in wrappers for other in tensors
    )


@dataclass(frozen=True, slots=True)
class AliasCheck:
    """Which inputs of a graph are looked at."""

    written: tuple[tuple[int, int | None], ...]
    """Positions, with how many bytes lie between a first element and the end of the last; None: a symbol decides."""
    read: tuple[tuple[int, int | None], ...]


def alias_check(written: Sequence[int], examples: Sequence[Any]) -> AliasCheck:
    """What has to be watched of a graph.

    Args:
        written: positions of the inputs that it writes to.
        examples: one of each input: tensors, numbers.
    """
    extents = {position: _extent(each) for position, each in enumerate(examples) if _has_address(each)}
    return AliasCheck(
        tuple((position, extents[position]) for position in written if position in extents),
        tuple((position, extent) for position, extent in extents.items() if position not in written),
    )


def with_alias_check(
    compiled: Callable[..., Any], captured: Callable[..., Any], check: AliasCheck
) -> Callable[..., Any]:
    """``compiled``, but ``captured`` for calls in which an input that is written overlaps with another input.

    Args:
        compiled: takes the graph's inputs; was compiled for such as do not overlap.
        captured: takes and gives the same.
        inputs: those that are looked at.
    """
    written, read = check.written, check.read

    def call(*arguments: Any) -> Any:
        ranges = [_address_range(arguments[position], extent) for position, extent in written]
        end_of_earlier = 0
        for start, end in sorted(ranges):
            if start < end_of_earlier:
                return captured(*arguments)
            end_of_earlier = max(end_of_earlier, end)
        for position, extent in read:
            first, last = _address_range(arguments[position], extent)
            for start, end in ranges:
                if first < end and start < last:
                    return captured(*arguments)
        return compiled(*arguments)

    torch_internals.hide_from_hook(call.__code__)
    return call


def may_overlap(written: Sequence[int], examples: Sequence[Any]) -> bool:
    """Whether there is something that could overlap: a written tensor and another one of the same device."""
    devices = [each.device if _has_address(each) else None for each in examples]
    return any(devices[position] is not None and devices.count(devices[position]) > 1 for position in written)


def _has_address(value: object) -> bool:
    if not isinstance(value, torch.Tensor) or not torch_internals.is_plain(value):
        return False
    return value.layout is torch.strided and not value.is_meta


def share_storage(written: Sequence[int], inputs: Sequence[Any]) -> bool:
    """Whether an input that is written shares its storage with another one."""
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
    steps = sum((size - 1) * stride for size, stride in zip(example.shape, example.stride(), strict=True))
    return (steps + 1) * example.element_size() if example.numel() else 0


def _address_range(tensor: torch.Tensor, extent: int | None) -> tuple[int, int]:
    first = tensor.data_ptr()
    if extent is None:
        extent = _extent(tensor)
        assert extent is not None
    return first, first + extent


def _storages(tensor: torch.Tensor) -> set[int]:
    return {each.untyped_storage()._cdata for each in _inner_tensors(tensor)}


def _inner_tensors(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    if not torch_internals.is_wrapper(tensor):
        yield tensor
        return
    names, _ = tensor.__tensor_flatten__()  # type: ignore[attr-defined]
    for name in names:
        yield from _inner_tensors(getattr(tensor, name))
