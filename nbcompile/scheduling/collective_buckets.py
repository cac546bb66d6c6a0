"""Buckets of collectives: small ones of one kind become one call, as each has a price whatever its size.

    program     all_reduce(a) -> c     all_reduce(b) -> d               wait(c)    wait(d)
    buckets     all_reduce_coalesced([a, b]) -> c, d                    wait(c)    wait(d)

Joined are calls of one operator, group, reduction, dtype and device, none of which needs another. Whoever waits
first for one of the results waits for all.

It is done only if the program requests it (``options={"bucket_collectives": True}``), as each process must do the
same: one that runs eagerly, or compiled another graph, issues other collectives, and all of them wait for ever.

In torch: torch/_inductor/fx_passes/bucketing.py. Read next: nbcompile/scheduling/collectives.py
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from nbcompile.ir.buffer import COLLECTIVES, Buffer, BufferView, Extern, ExternOutput, Program, operator_name
from nbcompile.ir.layout import contiguous, same_addresses
from nbcompile.scheduling.dependencies import dependencies, is_collective, topological_order
from nbcompile.scheduling.memory import sizes_of

SMALL = 1 << 20
"""Bytes of the result: a larger collective is not joined. Not measured."""
MOST_BYTES = 25 << 20
"""Bytes of the results of one bucket: the size of DistributedDataParallel's. Not measured."""
KINDS = tuple(f"{COLLECTIVES}::{name}" for name in ("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor"))
"""Operators that also exist for a list of tensors."""


@dataclass(slots=True)
class _Bucket:
    """Collectives that become one call, in their order."""

    calls: list[Extern] = field(default_factory=list)
    bytes: int = 0


def bucket_collectives(program: Program) -> Program:
    """The program with small collectives of one kind in buckets."""
    keys = {call.name: key for call in filter(is_collective, program.buffers) if (key := _key(call, program))}
    if len(set(keys.values())) == len(keys):
        return program
    # The order of the collectives among themselves is chosen here, so that it is no reason against a bucket.
    needs = dependencies(program, collectives_in_order=False)
    buckets = [bucket for bucket in _buckets(program, keys, needs) if len(bucket.calls) > 1]
    if not buckets:
        return program
    joined = {call.name: bucket for bucket in buckets for call in bucket.calls}
    buffers = {new.name: new for buffer in program.buffers for new in _with_bucket(buffer, joined)}
    # A bucket needs what its last collective needs, so that buffers between the two may have to move.
    order = topological_order(list(buffers), needs)
    return replace(program, buffers=tuple(buffers[name] for name in order))


def _key(call: Extern, program: Program) -> Hashable | None:
    """A key that is equal for collectives that may be joined; None for one that is called separately."""
    if operator_name(call.target) not in KINDS or call.kwargs or not isinstance(call.args[0], BufferView):
        return None
    sent, *others = call.args
    (result,) = program.outputs_of.get(call.name, ()) or (None,)
    tensor = program.tensors()[sent.buffer]
    if result is None or not 0 < sizes_of(program)[result.name] <= SMALL or tensor.dtype.is_complex:
        return None
    # Others are an error in eager mode for some operators, and shall be one here.
    if not same_addresses(sent.layout, contiguous(sent.layout.size)):
        return None
    return (call.target, tensor.dtype, tensor.device, *map(str, others))


def _buckets(program: Program, keys: Mapping[str, Hashable], needs: dict[str, set[str]]) -> list[_Bucket]:
    """The buckets, filled in the order of the program; ``needs`` knows a bucket by its first collective from then on.

        given      A1    B1 needs A1    A2 needs nothing    B2 needs A2
        buckets    A1 A2                B1 B2

    Were B2 needed by A2 instead, A1 A2 would need B2, and B1 and B2 could not be one call.
    """
    sizes = sizes_of(program)
    buckets: list[_Bucket] = []
    latest: dict[Hashable, _Bucket] = {}
    first_of: dict[str, str] = {}
    for call in program.buffers:
        if not isinstance(call, Extern) or call.name not in keys:
            continue
        size = sum(sizes[result.name] for result in program.outputs_of[call.name])
        bucket = latest.get(keys[call.name])
        # What was joined so far comes before this call in the program, so that a bucket never needs it.
        if bucket is None or bucket.bytes + size > MOST_BYTES or _needs(call.name, bucket.calls[0].name, needs):
            bucket = latest[keys[call.name]] = _Bucket()
            buckets.append(bucket)
        bucket.calls.append(call)
        bucket.bytes += size
        first = first_of[call.name] = bucket.calls[0].name
        if first != call.name:
            needs[first] |= needs[call.name]
            needs[call.name] = {first}
    for name, needed in needs.items():
        needs[name] = {first_of.get(one, one) for one in needed} - {name}
    return buckets


def _needs(name: str, other: str, needs: Mapping[str, set[str]]) -> bool:
    """True if one buffer depends on another."""
    worklist, seen = [name], {name}
    while worklist:
        for needed in needs[worklist.pop()] - seen:
            if needed == other:
                return True
            seen.add(needed)
            worklist.append(needed)
    return False


def _with_bucket(buffer: Buffer, joined: Mapping[str, _Bucket]) -> Sequence[Buffer]:
    """A buffer with the bucket instead of its collective; nothing for the second collective of a bucket."""
    if isinstance(buffer, ExternOutput) and buffer.extern in joined:
        calls = joined[buffer.extern].calls
        position = next(at for at, call in enumerate(calls) if call.name == buffer.extern)
        return (replace(buffer, extern=calls[0].name, path=(position,)),)
    if isinstance(buffer, Extern) and buffer.name in joined:
        calls = joined[buffer.name].calls
        return (_joined(calls),) if buffer is calls[0] else ()
    return (buffer,)


def _joined(calls: Sequence[Extern]) -> Extern:
    tensors: list[Any] = [call.args[0] for call in calls]
    name = operator_name(calls[0].target).partition("::")[2]
    return replace(
        calls[0],
        target=getattr(torch.ops._c10d_functional, f"{name}_coalesced").default,
        args=(tensors, *calls[0].args[1:]),
        reason=f"{calls[0].reason}; {len(calls)} small ones of one kind in a bucket",
        from_nodes=tuple(dict.fromkeys(node for call in calls for node in call.from_nodes)),
    )
