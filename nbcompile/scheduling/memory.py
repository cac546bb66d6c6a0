"""When memory is made, handed on and given back.

    buf0 = empty; kernel0(x -> buf0); buf1 = empty; kernel1(buf0 -> buf1); buf2 = buf0 again; kernel2(buf1 -> buf2)

A buffer lives from its first write to its last read. Its memory goes to the
next buffer of the same size and device; what the graph returns has memory of
its own, and what an operator of ATen may have made a view of is left alone.

Memory that waits for its next buffer is memory in use. There is room for it
while fewer buffers live than at the worst moment of the graph; where there is
none, it is given back and made anew later. So a graph never needs more than what
lives in it at that moment.

In torch: torch/_inductor/memory.py, codegen/wrapper.py (AllocateLine,
ReuseLine). Read next: nbcompile/scheduling/plan.py
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from nbcompile.ir.buffer import Computed, Extern, ExternOutput, Program, Scatter, Tensor, views_in
from nbcompile.ir.kernel import Allocate, Free, Kernel, Reuse, Step
from nbcompile.ir.layout import contiguous, same_places
from nbcompile.scheduling.dependencies import reads

SOME_SIZE = 64
"""What a symbolic size is taken for (the next one for the number after it) where buffers are compared."""


def plan_memory(program: Program, launches: list[Kernel | Extern]) -> tuple[Step, ...]:
    """The kernels and calls with allocation, reuse and release between them."""
    tensors = program.tensors()
    outputs_of: dict[str, list[str]] = {}
    for tensor in tensors.values():
        if isinstance(tensor, ExternOutput):
            outputs_of.setdefault(tensor.extern, []).append(tensor.name)
    kept = {each.buffer for each in views_in(program.outputs)} | _aliased(program, outputs_of)
    taken_over = {each.into for each in tensors.values() if isinstance(each, Scatter)}
    last_use = _last_uses(launches, outputs_of)
    sizes = _sizes(program)
    room = _room(launches, outputs_of, _ends(last_use, kept, tensors, len(launches)), sizes, tensors)
    steps: list[Step] = []
    idle: list[str] = []
    over = [name for name in last_use if name not in kept and name not in taken_over]
    given_back = [name for name in over if isinstance(tensors[name], ExternOutput) and not _is_ours(tensors[name])]
    ended: dict[int, list[str]] = {}
    for name in filter(lambda name: _is_ours(tensors[name]), over):
        ended.setdefault(last_use[name], []).append(name)
    for at, launch in enumerate(launches):
        if isinstance(launch, Kernel):
            ours = [name for name in launch.writes if isinstance(tensors[name], Computed)]
            steps += [_memory_for(name, idle, tensors, reusable=name not in kept) for name in ours]
            changed = [tensors[name] for name in launch.writes]
            steps += [Reuse(each.name, each.into) for each in changed if isinstance(each, Scatter)]
        while sum(sizes[name] for name in idle) > room[at]:
            given_back.append(idle.pop(0))
        steps.append(launch)
        idle += ended.get(at, ())
    # What nobody took over is given back where it was used last.
    return _with_frees(steps, given_back + idle, last_use, launches)


def _room(
    launches: list[Kernel | Extern],
    outputs_of: dict[str, list[str]],
    ends: dict[str, int],
    sizes: dict[str, int],
    tensors: Mapping[str, Tensor],
) -> list[int]:
    """How many bytes less live during each launch than during the one where most do."""
    change = [0] * (len(launches) + 1)
    seen: set[str] = set()
    for at, launch in enumerate(launches):
        written = launch.writes if isinstance(launch, Kernel) else outputs_of.get(launch.name, ())
        for name in written:
            if name in sizes and name not in seen and not isinstance(tensors[name], Scatter):
                seen.add(name)
                change[at] += sizes[name]
                change[ends[name]] -= sizes[name]
    alive = list(itertools.accumulate(change[:-1]))
    return [max(alive) - each for each in alive]


def _ends(last_use: dict[str, int], kept: set[str], tensors: Mapping[str, Tensor], launches: int) -> dict[str, int]:
    """The first launch at which the memory of a buffer is not read any more."""
    ends = {name: launches if name in kept else last + 1 for name, last in last_use.items()}
    for each in reversed(list(tensors.values())):
        if isinstance(each, Scatter):  # it lives in the memory of the buffer that it changes
            ends[each.into] = ends[each.name]
    return ends


def _sizes(program: Program) -> dict[str, int]:
    """How many bytes each buffer takes that is made here; of a symbolic size, with numbers in the place of symbols."""
    values = {each.symbol: SOME_SIZE + at for at, each in enumerate(program.symbols)}
    sizes = {}
    for name, tensor in program.tensors().items():
        if isinstance(tensor, Computed | ExternOutput | Scatter):
            span = tensor.layout.span
            known = span.subs({symbol: values.get(symbol, SOME_SIZE) for symbol in span.free_symbols})
            sizes[name] = int(known) * tensor.dtype.itemsize
    return sizes


def _aliased(program: Program, outputs_of: dict[str, list[str]]) -> set[str]:
    """Buffers that share memory with the result of an ATen operator, and these results."""
    found: set[str] = set()
    for buffer in program.buffers:
        if not isinstance(buffer, Extern):
            continue
        schema = getattr(buffer.target, "_schema", None)
        if schema is None or any(each.alias_info is not None for each in schema.returns):
            found.update(reads(buffer))
            found.update(outputs_of.get(buffer.name, ()))
    return found


def _last_uses(launches: list[Kernel | Extern], outputs_of: dict[str, list[str]]) -> dict[str, int]:
    last: dict[str, int] = {}
    for at, launch in enumerate(launches):
        touched = (
            (*launch.reads, *launch.writes)
            if isinstance(launch, Kernel)
            else (*reads(launch), *outputs_of.get(launch.name, ()))
        )
        last.update(dict.fromkeys(touched, at))
    return last


def _is_ours(tensor: Tensor) -> bool:
    """Whether its memory may be handed on: made for it, and of exactly its elements."""
    if isinstance(tensor, Computed | Scatter):
        return True
    return isinstance(tensor, ExternOutput) and same_places(tensor.layout, contiguous(tensor.layout.size))


def _memory_for(name: str, idle: list[str], tensors: dict[str, Tensor], *, reusable: bool) -> Step:
    wanted = tensors[name]
    if reusable:
        for old in reversed(idle):
            given = tensors[old]
            fits = given.layout.span == wanted.layout.span and given.dtype.itemsize == wanted.dtype.itemsize
            if fits and given.device == wanted.device:
                idle.remove(old)
                return Reuse(name, old)
    return Allocate(name)


def _with_frees(
    steps: list[Step], idle: list[str], last_use: dict[str, int], launches: list[Kernel | Extern]
) -> tuple[Step, ...]:
    ending: dict[int, list[str]] = {}
    for name in idle:
        ending.setdefault(last_use[name], []).append(name)
    result: list[Step] = []
    at = -1
    for step in steps:
        result.append(step)
        if isinstance(step, (Kernel, Extern)):
            at += 1
            assert launches[at] is step
            result += [Free(name) for name in ending.get(at, ())]
    return tuple(result)
