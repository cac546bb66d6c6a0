"""Who reads and writes what, and in which order that allows things to happen.

    buf0 = sum of x         buf0 reads x
    x.copy_(buf0 + x)       comes after everything that reads x's old value

In torch: torch/_inductor/dependencies.py, scheduler.py (compute_dependencies).
Read next: nbcompile/scheduling/fuse.py
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import torch

from nbcompile.ir.buffer import (
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
    views_in,
)
from nbcompile.ir.expr import loads


@functools.lru_cache(maxsize=4096)
def reads(buffer: Buffer) -> tuple[str, ...]:
    """The buffers that a buffer is computed from, each once."""
    match buffer:
        case Pointwise(body=body) | Reduction(body=body) | Scan(body=body):
            return tuple(dict.fromkeys(each.buffer for each in loads(body)))
        case Scatter(body=body, position=position, into=into):
            read = [each.buffer for part in (body, *position) for each in loads(part)]
            return tuple(dict.fromkeys([into, *read]))
        case Extern(args=args, kwargs=kwargs):
            return tuple(dict.fromkeys(each.buffer for each in views_in((args, kwargs))))
        case ExternOutput(extern=extern):
            return (extern,)
        case GraphInput() | GraphAttribute():
            return ()


def dependencies(program: Program) -> dict[str, set[str]]:
    """For each buffer, those that must be computed before it."""
    needs = {buffer.name: set(reads(buffer)) for buffer in program.buffers}
    readers: dict[str, list[str]] = {}
    for buffer in program.buffers:
        for name in reads(buffer):
            readers.setdefault(name, []).append(buffer.name)
    place = {buffer.name: at for at, buffer in enumerate(program.buffers)}
    writers: dict[str, list[str]] = {}
    for buffer in program.buffers:
        if isinstance(buffer, Pointwise) and buffer.writes_to:
            # Readers of the input mean its old value, wherever they stand.
            needs[buffer.name] |= {name for name in readers.get(buffer.writes_to, ()) if name != buffer.name}
            needs[buffer.name] |= set(writers.get(buffer.writes_to, ()))
            writers.setdefault(buffer.writes_to, []).append(buffer.name)
        elif isinstance(buffer, Extern):
            _order_mutation(buffer, readers, place, needs)
    _keep_random_order(program, needs)
    return needs


def _order_mutation(
    call: Extern, readers: dict[str, list[str]], place: dict[str, int], needs: dict[str, set[str]]
) -> None:
    for target in call.mutates:
        for reader in readers.get(target, ()):
            if place[reader] < place[call.name]:
                needs[call.name].add(reader)
            elif place[reader] > place[call.name]:
                needs[reader].add(call.name)


def _keep_random_order(program: Program, needs: dict[str, set[str]]) -> None:
    # Each draw moves the generator on: draws stay in the order that eager makes them in.
    last = ""
    for buffer in program.buffers:
        if isinstance(buffer, Extern) and torch.Tag.nondeterministic_seeded in getattr(buffer.target, "tags", ()):
            if last:
                needs[buffer.name].add(last)
            last = buffer.name


def has_effect(buffer: Buffer, outputs_of: dict[str, list[str]]) -> bool:
    """Whether a buffer matters though nothing reads it."""
    match buffer:
        case Pointwise(writes_to=target):
            return bool(target)
        case Extern(name=name, mutates=mutates):
            return bool(mutates) or not outputs_of.get(name)
        case GraphInput() | GraphAttribute():
            return True
        case _:
            return False


def without_dead_code(program: Program) -> Program:
    """Leave out what neither the outputs nor an effect depend on."""
    by_name = {buffer.name: buffer for buffer in program.buffers}
    outputs_of: dict[str, list[str]] = {}
    for buffer in program.buffers:
        if isinstance(buffer, ExternOutput):
            outputs_of.setdefault(buffer.extern, []).append(buffer.name)
    waiting = [each.buffer for each in views_in(program.outputs)]
    waiting += [each.name for each in program.buffers if has_effect(each, outputs_of)]
    alive: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in alive:
            alive.add(name)
            waiting.extend(reads(by_name[name]))
    kept = tuple(each for each in program.buffers if each.name in alive)
    return Program(kept, program.outputs, program.arguments, program.symbols, program.single_output)


def in_order(names: list[str], needs: dict[str, set[str]]) -> list[str]:
    """The names with everything after what it needs; otherwise in the order given.

    Raises:
        ValueError: they need each other in a circle.
    """
    done: dict[str, None] = {}
    open_: set[str] = set()
    place = {name: at for at, name in enumerate(names)}

    def before(name: str) -> Iterator[str]:
        return iter(sorted((each for each in needs.get(name, ()) if each in place), key=place.__getitem__))

    for first in names:
        path = [(first, before(first))]
        if first in done:
            continue
        open_.add(first)
        while path:
            name, rest = path[-1]
            following = next((each for each in rest if each not in done), None)
            if following is None:
                done[name] = None
                open_.discard(name)
                path.pop()
            elif following in open_:
                raise ValueError(f"{following} and {name} need each other")
            else:
                open_.add(following)
                path.append((following, before(following)))
    return list(done)
