"""Reasons of calls that wait, or are waited for, in words for the record: collectives, copies, operators that count.

    extern0 (all_reduce)     between processes: meanwhile triton_exp_1, extern2 (mm); extern1 (wait_tensor) waits for it
    extern1 (wait_tensor)    between processes: the current stream waits for extern0 (all_reduce), the CPU continues
    extern3 (_to_copy)       a copy to another device, non_blocking: the CPU continues where its side is pinned memory
    extern4 (nonzero)        ...; the CPU waits for the GPU, as it needs a number of the result

In torch: nothing. Read next: nbcompile/scheduling/collectives.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch._higher_order_ops.effects import with_effects

from nbcompile.ir.buffer import BufferView, Extern, ExternOutput, Program, Tensor, operator_name, views_in
from nbcompile.ir.kernel import Kernel
from nbcompile.scheduling.dependencies import is_collective, is_wait, waited_for

aten = torch.ops.aten
WAITING = frozenset(
    {
        aten._local_scalar_dense.default, aten.nonzero.default, aten.masked_select.default, aten.equal.default,
        aten.unique_consecutive.default, aten.unique_dim.default, aten._unique2.default, aten.is_nonzero.default,
        aten.repeat_interleave.Tensor, aten.bincount.default, aten._assert_async.msg, aten._assert_scalar.default,
        aten.segment_reduce.default, aten.multinomial.default, aten._linalg_check_errors.default,
    }
)  # fmt: skip
"""Operators of ATen for which the CPU waits: it reads a number that the GPU computes, often the size of the result."""
INDEXED = frozenset(
    {aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._unsafe_index_put.default}
)
"""A mask among their indices is counted by the CPU."""
DEVICE_CHECKS = frozenset({aten._assert_async.msg})
"""Operators of those above that a GPU itself runs: only a recorded graph cannot have them."""
COPIES = frozenset({aten._to_copy.default, aten.copy_.default, aten.copy.default})


def with_waits_in_words(program: Program, launches: Sequence[Kernel | Extern]) -> list[Kernel | Extern]:
    """The launches; the reason of a call says whether it waits, and which call waits for it."""
    words = dict(_words(program, launches))
    return [
        replace(launch, reason=words[launch.name]) if isinstance(launch, Extern) and launch.name in words else launch
        for launch in launches
    ]


def counts_a_mask(extern: Extern, tensors: Mapping[str, Tensor]) -> bool:
    """Return whether an index is a mask, whose elements are counted for the size of the result."""
    indices = extern.args[1] if extern.target in INDEXED else ()
    return any(
        isinstance(index, BufferView) and tensors[index.buffer].dtype in (torch.bool, torch.uint8) for index in indices
    )


def looks_for_range(extern: Extern) -> bool:
    """Return whether a histogram has no range: the CPU reads the least and the largest number."""
    limits = (*extern.args[2:4], 0, 0)[:2]
    return extern.target is aten.histc.default and limits[0] == limits[1]


def _words(program: Program, launches: Sequence[Kernel | Extern]) -> Iterator[tuple[str, str]]:
    tensors = program.tensors()
    waits = waited_for(program)
    results = {buffer.extern: buffer.device for buffer in program.buffers if isinstance(buffer, ExternOutput)}
    by_name = {launch.name: launch for launch in launches}
    # A wait, or a collective, may be in another graph: then it is in no table here.
    position = {name: at for at, name in enumerate(by_name)}
    for launch in launches:
        if not isinstance(launch, Extern):
            continue
        if is_wait(launch):
            yield launch.name, _of_wait(launch, [by_name[name] for name in sorted(waits[launch.name])], tensors)
        elif is_collective(launch):
            ends = [name for name, begun in waits.items() if launch.name in begun and name in position]
            yield launch.name, _of_collective(launch, sorted(ends, key=position.__getitem__), launches, position)
        elif words := _of_copy(launch, tensors, results.get(launch.name)) or _of_count(launch, tensors):
            yield launch.name, words


def _named(launch: Any) -> str:
    """``extern0 (all_reduce)``, ``triton_exp_1``."""
    if isinstance(launch, Kernel):
        return launch.name
    return f"{launch.name} ({operator_name(launch.target).partition('::')[2] or launch.target})"


def _of_collective(
    collective: Extern, ends: Sequence[str], launches: Sequence[Kernel | Extern], position: Mapping[str, int]
) -> str:
    if not ends:
        return "between processes: this graph does not wait for it, and its memory is not used again"
    wait = launches[position[ends[0]]]
    between = launches[position[collective.name] + 1 : position[ends[0]]]
    # Another collective, or the wait for it, is no work that hides this one.
    work = [_named(launch) for launch in between if not (is_collective(launch) or is_wait(launch))]  # type: ignore[arg-type]
    shown = ", ".join(work[:4]) + (f" and {len(work) - 4} more" if len(work) > 4 else "")
    return f"between processes: meanwhile {shown or 'nothing'}; {_named(wait)} waits for it"


def _of_wait(wait: Extern, begun: Sequence[Any], tensors: Mapping[str, Tensor]) -> str:
    what = ", ".join(map(_named, begun)) or "a collective that was begun outside of the graph"
    on_gpu = any(tensors[view.buffer].device.type == "cuda" for view in views_in(wait.args))
    who = "the current stream waits for {}, the CPU continues" if on_gpu else "the CPU waits for {}"
    return f"between processes: {who.format(what)}"


def _of_copy(extern: Extern, tensors: Mapping[str, Tensor], result: torch.device | None) -> str:
    if extern.target not in COPIES:
        return ""
    devices = {tensors[view.buffer].device for view in views_in((extern.args, extern.kwargs))}
    devices |= {result} if result is not None else set()
    kinds = {device.type for device in devices}
    # On one device it is a kernel of the library.
    if len(devices) < 2 or "cuda" not in kinds:
        return ""
    # From one GPU to another it is ordered on the streams of both.
    if kinds == {"cuda"}:
        return "a copy to another device: the CPU continues"
    # copy_(into, source, non_blocking) has it as an argument.
    given = extern.args[2:3] if extern.target is not aten._to_copy.default else ()
    if extern.kwargs.get("non_blocking") or (given and given[0]):
        return "a copy to another device, non_blocking: the CPU continues where its side is pinned memory"
    return "a copy to another device: the CPU waits for it"


def _of_count(extern: Extern, tensors: Mapping[str, Tensor]) -> str:
    on_gpu = any(tensors[view.buffer].device.type == "cuda" for view in views_in((extern.args, extern.kwargs)))
    # An operator with an effect is called as with_effects(token, operator, ...).
    target = extern.args[1] if extern.target is with_effects else extern.target
    if not on_gpu or target in DEVICE_CHECKS:
        return ""
    if target in WAITING or counts_a_mask(extern, tensors) or looks_for_range(extern):
        return f"{extern.reason}; the CPU waits for the GPU, as it needs a number of the result"
    return ""
