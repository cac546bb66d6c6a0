"""When memory is made, handed on and given back.

    buf0 = empty; kernel0(x -> buf0); buf1 = empty; kernel1(buf0 -> buf1); buf2 = buf0 again; kernel2(buf1 -> buf2)

A buffer lives from its first write to its last read. Its memory goes to the
next buffer of the same size and device; what the graph returns has memory of
its own, and what an operator of ATen may have made a view of is left alone.

In torch: torch/_inductor/memory.py, codegen/wrapper.py (AllocateLine,
ReuseLine). Read next: nbcompile/scheduling/plan.py
"""

from __future__ import annotations

from nbcompile.ir.buffer import Computed, Extern, ExternOutput, Program, Scatter, Tensor, views_in
from nbcompile.ir.kernel import Allocate, Free, Kernel, Reuse, Step
from nbcompile.ir.layout import contiguous, same_places
from nbcompile.scheduling.dependencies import reads


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
    steps: list[Step] = []
    idle: list[str] = []
    for at, launch in enumerate(launches):
        if isinstance(launch, Kernel):
            ours = [name for name in launch.writes if isinstance(tensors[name], Computed)]
            steps += [_memory_for(name, idle, tensors, reusable=name not in kept) for name in ours]
            changed = [tensors[name] for name in launch.writes]
            steps += [Reuse(each.name, each.into) for each in changed if isinstance(each, Scatter)]
        steps.append(launch)
        ended = [name for name, last in last_use.items() if last == at and name not in kept]
        idle += [name for name in ended if _is_ours(tensors[name]) and name not in taken_over]
    # What nobody took over is given back where it was used last.
    return _with_frees(steps, idle, last_use, launches)


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
