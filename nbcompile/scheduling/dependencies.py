"""Dependencies between buffers: reads, writes, and the topological orders that they allow.

    buf0 = sum of x         buf0 reads x
    x.copy_(buf0 + x)       comes after everything that reads x's old value

In torch: torch/_inductor/dependencies.py, scheduler.py (compute_dependencies).
Read next: nbcompile/scheduling/groups.py
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeGuard

import torch

from nbcompile.ir.buffer import (
    COLLECTIVES,
    Buffer,
    Extern,
    ExternOutput,
    GraphAttribute,
    GraphInput,
    Pointwise,
    Program,
    Reduction,
    Scan,
    Scatter,
    operator_name,
    views_in,
)
from nbcompile.ir.traversal import loads


@functools.lru_cache(maxsize=1 << 15)
def reads(buffer: Buffer) -> tuple[str, ...]:
    """The buffers that a buffer reads, without duplicates."""
    match buffer:
        case Pointwise(body=body) | Reduction(body=body) | Scan(body=body):
            return tuple(dict.fromkeys(load.buffer for load in loads(body)))
        case Scatter(body=body, position=position, into=into):
            read = [load.buffer for part in (body, *position) for load in loads(part)]
            return tuple(dict.fromkeys([into, *read]))
        case Extern(args=args, kwargs=kwargs):
            return tuple(dict.fromkeys(view.buffer for view in views_in((args, kwargs))))
        case ExternOutput(extern=extern):
            return (extern,)
        case GraphInput() | GraphAttribute():
            return ()


def dependencies(program: Program, collectives_in_order: bool = True) -> dict[str, set[str]]:
    """Predecessors of each buffer, with the order of collectives among themselves or without."""
    #     read after write     a reader needs the buffer that it reads
    #     write after read     a writer to an input needs all other readers of it
    #     write after write    the later writer needs the earlier one
    needs = {buffer.name: set(reads(buffer)) for buffer in program.buffers}
    readers: dict[str, list[str]] = {}
    read_until = read_until_waits(program)
    for buffer in program.buffers:
        for name in (*reads(buffer), *read_until.get(buffer.name, ())):
            readers.setdefault(name, []).append(buffer.name)
    position_of = {buffer.name: at for at, buffer in enumerate(program.buffers)}
    writers: dict[str, list[str]] = {}
    for buffer in program.buffers:
        if isinstance(buffer, Pointwise) and buffer.writes_to:
            # Write after read: all readers of the input mean its old value.
            needs[buffer.name] |= {name for name in readers.get(buffer.writes_to, ()) if name != buffer.name}
            needs[buffer.name] |= set(writers.get(buffer.writes_to, ()))
            writers.setdefault(buffer.writes_to, []).append(buffer.name)
        elif isinstance(buffer, Extern):
            _order_mutation(buffer, readers, position_of, needs)
    _order_random_operators(program, needs)
    if collectives_in_order:
        _order_collectives(program, needs)
    _order_behind_waits(program, readers, position_of, needs)
    return needs


def _order_mutation(
    call: Extern, readers: dict[str, list[str]], position_of: dict[str, int], needs: dict[str, set[str]]
) -> None:
    for target in call.mutates:
        for reader in readers.get(target, ()):
            # Readers in front of a call that mutates its argument read the old content, those behind it the new one.
            # A Pointwise that writes to an input differs: all readers of the input mean the old value.
            if position_of[reader] < position_of[call.name]:
                needs[call.name].add(reader)
            elif position_of[reader] > position_of[call.name]:
                needs[reader].add(call.name)


def _order_random_operators(program: Program, needs: dict[str, set[str]]) -> None:
    # Each random operator advances the generator's state: they keep eager's order.
    last = ""
    for buffer in program.buffers:
        if isinstance(buffer, Extern) and torch.Tag.nondeterministic_seeded in getattr(buffer.target, "tags", ()):
            if last:
                needs[buffer.name].add(last)
            last = buffer.name


def is_wait(buffer: Buffer | None) -> TypeGuard[Extern]:
    """True for the call that waits for the result of a collective."""
    return isinstance(buffer, Extern) and operator_name(buffer.target) == f"{COLLECTIVES}::wait_tensor"


def is_collective(buffer: Buffer | None) -> TypeGuard[Extern]:
    """True for a call that begins a collective between processes, and returns before it is done."""
    is_one = isinstance(buffer, Extern) and operator_name(buffer.target).startswith(f"{COLLECTIVES}::")
    return is_one and not is_wait(buffer)


def waited_for(program: Program) -> dict[str, set[str]]:
    """Collectives of this graph, by the wait for their result."""
    by_name = {buffer.name: buffer for buffer in program.buffers}
    found: dict[str, set[str]] = {}
    for wait in filter(is_wait, program.buffers):
        results = (by_name[name] for name in reads(wait))
        found[wait.name] = {result.extern for result in results if isinstance(result, ExternOutput)}
    return found


def read_until_waits(program: Program) -> dict[str, set[str]]:
    """Buffers that the collective of each wait reads until then."""
    by_name = {buffer.name: buffer for buffer in program.buffers}
    return {
        wait: {name for call in calls if is_collective(by_name[call]) for name in reads(by_name[call])}
        for wait, calls in waited_for(program).items()
    }


def _order_collectives(program: Program, needs: dict[str, set[str]]) -> None:
    # The n-th collective of one process is matched with the n-th of the others.
    last = ""
    for call in filter(is_collective, program.buffers):
        if last:
            needs[call.name].add(last)
        last = call.name


def _order_behind_waits(
    program: Program, readers: dict[str, list[str]], position_of: dict[str, int], needs: dict[str, set[str]]
) -> None:
    # What is waited for has two names from then on: a later reader by the old one needs the wait as well.
    for wait in filter(is_wait, program.buffers):
        for name in reads(wait):
            later = (reader for reader in readers[name] if position_of[reader] > position_of[wait.name])
            for reader in later:
                needs[reader].add(wait.name)


def has_side_effect(buffer: Buffer, outputs_of: dict[str, list[str]]) -> bool:
    """True if a buffer must be kept though nothing reads it."""
    match buffer:
        case Pointwise(writes_to=target):
            return bool(target)
        case Extern(name=name, mutates=mutates):
            # A call without results is there for what it does (an assertion, a print). In a collective other processes
            # take part.
            return bool(mutates) or not outputs_of.get(name) or is_collective(buffer) or is_wait(buffer)
        case GraphInput() | GraphAttribute():
            return True
        case _:
            return False


def eliminate_dead_code(program: Program) -> Program:
    """Dead code elimination: keep what the outputs and the side effects depend on."""
    by_name = {buffer.name: buffer for buffer in program.buffers}
    outputs_of: dict[str, list[str]] = {}
    for buffer in program.buffers:
        if isinstance(buffer, ExternOutput):
            outputs_of.setdefault(buffer.extern, []).append(buffer.name)
    # Mark what is reachable, through reads, from the results and from buffers with a side effect; the rest is dead.
    worklist = [view.buffer for view in views_in(program.outputs)]
    worklist += [buffer.name for buffer in program.buffers if has_side_effect(buffer, outputs_of)]
    live: set[str] = set()
    while worklist:
        name = worklist.pop()
        if name not in live:
            live.add(name)
            worklist.extend(reads(by_name[name]))
    remaining = tuple(buffer for buffer in program.buffers if buffer.name in live)
    return replace(program, buffers=remaining)


def topological_order(names: list[str], needs: dict[str, set[str]]) -> list[str]:
    """A topological order of the names that stays as close to the given order as it can.

    Raises:
        ValueError: there is a dependency cycle.
    """
    done: dict[str, None] = {}
    on_path: set[str] = set()
    position_of = {name: at for at, name in enumerate(names)}

    def before(name: str) -> Iterator[str]:
        return iter(
            sorted((needed for needed in needs.get(name, ()) if needed in position_of), key=position_of.__getitem__)
        )

    # A depth-first search in the given order, with its own path: a chain of buffers may be longer than Python's
    # stack. A name is done once all that it needs is; a name that is still on the path closes a cycle.
    for first in names:
        path = [(first, before(first))]
        if first in done:
            continue
        on_path.add(first)
        while path:
            name, rest = path[-1]
            following = next((candidate for candidate in rest if candidate not in done), None)
            if following is None:
                done[name] = None
                on_path.discard(name)
                path.pop()
            elif following in on_path:
                raise ValueError(f"{following} and {name} need each other")
            else:
                on_path.add(following)
                path.append((following, before(following)))
    return list(done)
