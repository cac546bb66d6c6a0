"""The memory plan: when buffers are allocated, reused and freed.

    buf0 = empty; kernel0(x -> buf0); buf1 = empty; kernel1(buf0 -> buf1); reuse buf0 as buf2; kernel2(buf1 -> buf2)

The live range of a buffer is from its first write to its last read. Its memory
is then reused by the next buffer of the same size and device. Outputs have
memory of their own, and what an ATen operator may return a view of is not reused.
Nor is what a collective reads or writes before it was waited for.

A tensor that was saved only for this graph (a donated buffer) is freed after its last read, so that the next
allocation of its size gets its memory from the allocator; if the graph is kept (retain_graph), autograd still owns it.

The free list counts as used memory. It may grow while fewer bytes are live than
at the peak of the graph; beyond that, memory is freed and allocated anew later.
So a graph never needs more than its peak of live bytes.

In torch: torch/_inductor/memory.py, codegen/wrapper.py (AllocateLine,
ReuseLine). Read next: nbcompile/scheduling/plan.py
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Mapping, Sequence

from nbcompile.ir.buffer import Extern, ExternOutput, GraphInput, LoopBuffer, Program, Scatter, Tensor, views_in
from nbcompile.ir.kernel import Allocate, Free, Kernel, Reuse, Step
from nbcompile.ir.layout import contiguous, same_addresses
from nbcompile.scheduling.dependencies import is_collective, is_wait, read_until_waits, reads, waited_for

SIZE_HINT = 64
"""The assumed value of a symbolic size (the next symbol has the next number), to compare sizes of buffers."""
LARGEST = 2**62
"""The assumed number of elements where the formula of a size gives none."""


def plan_memory(program: Program, launches: list[Kernel | Extern]) -> tuple[Step, ...]:
    """The kernels and extern calls, with allocation, reuse and freeing between them.

        launch        kernel0    kernel1    kernel2        live bytes   4    8    8      peak 8
        buf0 (4)      write      read       .              headroom     4    0    0      peak - live
        buf1 (4)      .          write      read           free list    -    -    buf0   reused by buf2
        buf2 (4)      .          .          write

    A buffer enters the free list after its last use. It stays there while used and waiting memory together are below
    the peak of live bytes, which the graph needs in any case; beyond it, the oldest one is freed.
    """
    tensors = program.tensors()
    outputs_of = _outputs_of(tensors)
    # Their memory is not ours to reuse: outputs outlive the graph, and an extern call may return its argument's memory.
    outliving = {view.buffer for view in views_in(program.outputs)} | _aliased(program, outputs_of)
    outliving |= _never_waited_for(program, outputs_of)
    updated_in_place = {tensor.into for tensor in tensors.values() if isinstance(tensor, Scatter)}
    last_use = _last_uses(launches, outputs_of, read_until_waits(program))
    sizes = sizes_of(program)
    headroom = _headroom(
        launches, outputs_of, _live_range_ends(last_use, outliving, tensors, len(launches)), sizes, tensors
    )
    # A buffer that a scatter updates lives on in the scatter's result, which has the same memory.
    dead = [name for name in last_use if name not in outliving and name not in updated_in_place]
    reusable = _reusable(dead, program, outputs_of)
    freed = [name for name in dead if name not in reusable and _is_freed(tensors[name])]
    dying: dict[int, list[str]] = {}
    for name in reusable:
        dying.setdefault(last_use[name], []).append(name)
    steps: list[Step] = []
    free_list: list[str] = []
    for at, launch in enumerate(launches):
        # Before the launch: memory for its results. Extern calls allocate their own.
        if isinstance(launch, Kernel):
            steps += _memory_for_results(launch, free_list, tensors, outliving)
        # The oldest first: what was used last is the most likely to be in a cache still.
        while sum(sizes[name] for name in free_list) > headroom[at]:
            freed.append(free_list.pop(0))
        steps.append(launch)
        # Only now: a kernel must not write to memory that it still reads.
        free_list += dying.get(at, ())
    # What was not reused is freed after its last use.
    return _with_frees(steps, freed + free_list, last_use, launches)


def _outputs_of(tensors: Mapping[str, Tensor]) -> dict[str, list[str]]:
    """The names of the results of each extern call."""
    outputs: dict[str, list[str]] = {}
    for tensor in tensors.values():
        if isinstance(tensor, ExternOutput):
            outputs.setdefault(tensor.extern, []).append(tensor.name)
    return outputs


def _memory_for_results(
    kernel: Kernel, free_list: list[str], tensors: Mapping[str, Tensor], outliving: Container[str]
) -> list[Step]:
    """New or reused memory for the buffers that a kernel writes; a scatter has the memory of what it updates."""
    allocated = [name for name in kernel.writes if isinstance(tensors[name], LoopBuffer)]
    changed = [tensors[name] for name in kernel.writes]
    return [
        *(_memory_for(name, free_list, tensors, reusable=name not in outliving) for name in allocated),
        *(Reuse(tensor.name, tensor.into) for tensor in changed if isinstance(tensor, Scatter)),
    ]


def _headroom(
    launches: list[Kernel | Extern],
    outputs_of: dict[str, list[str]],
    range_ends: dict[str, int],
    sizes: dict[str, int],
    tensors: Mapping[str, Tensor],
) -> list[int]:
    """Difference between peak live bytes and those of each launch: the limit of the free list."""
    # Live bytes are a running sum: each buffer adds its size where its live range begins, and takes it back at the end.
    change = [0] * (len(launches) + 1)
    seen: set[str] = set()
    for name, end in range_ends.items():
        if _is_donated(tensors[name]):
            change[0] += sizes[name]
            change[end] -= sizes[name]
    for at, launch in enumerate(launches):
        written = launch.writes if isinstance(launch, Kernel) else outputs_of.get(launch.name, ())
        for name in written:
            if name in sizes and name not in seen and not isinstance(tensors[name], Scatter):
                seen.add(name)
                change[at] += sizes[name]
                change[range_ends[name]] -= sizes[name]
    live_bytes = list(itertools.accumulate(change[:-1]))
    peak = max(live_bytes, default=0)
    return [peak - live for live in live_bytes]


def _live_range_ends(
    last_use: dict[str, int], outliving: set[str], tensors: Mapping[str, Tensor], launches: int
) -> dict[str, int]:
    """First launch after the live range of each buffer."""
    range_ends = {name: launches if name in outliving else last + 1 for name, last in last_use.items()}
    for tensor in reversed(list(tensors.values())):
        if isinstance(tensor, Scatter):  # it is stored in the buffer that it updates
            range_ends[tensor.into] = range_ends[tensor.name]
    return range_ends


def sizes_of(program: Program) -> dict[str, int]:
    """The bytes of each buffer that this graph allocates or frees; symbolic sizes are replaced by size hints."""
    values = {symbol.symbol: SIZE_HINT + at for at, symbol in enumerate(program.symbols)}
    sizes = {}
    for name, tensor in program.tensors().items():
        if isinstance(tensor, LoopBuffer | ExternOutput | Scatter) or _is_donated(tensor):
            span = tensor.layout.span
            known = span.subs({symbol: values.get(symbol, SIZE_HINT) for symbol in span.free_symbols})
            # torch calls a large power of a symbol infinite.
            sizes[name] = (int(known) if known.is_Integer else LARGEST) * tensor.dtype.itemsize
    return sizes


def _aliased(program: Program, outputs_of: dict[str, list[str]]) -> set[str]:
    """Buffers that may alias the result of an ATen operator, and these results."""
    found: set[str] = set()
    for buffer in program.buffers:
        if not isinstance(buffer, Extern):
            continue
        schema = getattr(buffer.target, "_schema", None)
        # A target without a schema is a Python function: it may return its argument.
        if schema is None or any(result.alias_info is not None for result in schema.returns):
            found.update(reads(buffer))
            found.update(outputs_of.get(buffer.name, ()))
    return found


def _reusable(dead: Sequence[str], program: Program, outputs_of: dict[str, list[str]]) -> dict[str, None]:
    """Buffers whose memory may be reused, in their order."""
    tensors = program.tensors()
    # A wait returns what it is given: the memory of a collective's result has two names.
    calls = [call.name for call in program.buffers if is_collective(call) or is_wait(call)]
    waited = {name for call in calls for name in outputs_of.get(call, ())}
    return dict.fromkeys(name for name in dead if _is_reusable(tensors[name]) and name not in waited)


def _never_waited_for(program: Program, outputs_of: dict[str, list[str]]) -> set[str]:
    """Buffers that a collective reads and writes, and for which another graph, or eager mode, waits."""
    waited = set[str]().union(*waited_for(program).values())
    calls = [call for call in program.buffers if is_collective(call) and call.name not in waited]
    return {name for call in calls for name in (*reads(call), *outputs_of.get(call.name, ()))}


def _last_uses(
    launches: list[Kernel | Extern], outputs_of: dict[str, list[str]], read_until: Mapping[str, set[str]]
) -> dict[str, int]:
    last: dict[str, int] = {}
    for at, launch in enumerate(launches):
        touched = (
            (*launch.reads, *launch.writes)
            if isinstance(launch, Kernel)
            else (*reads(launch), *outputs_of.get(launch.name, ()), *read_until.get(launch.name, ()))
        )
        last.update(dict.fromkeys(touched, at))
    return last


def _is_donated(tensor: Tensor) -> bool:
    return isinstance(tensor, GraphInput) and tensor.donated


def _is_freed(tensor: Tensor) -> bool:
    """True if it is freed after its last use, unless its memory is reused."""
    return isinstance(tensor, ExternOutput) or _is_donated(tensor)


def _is_reusable(tensor: Tensor) -> bool:
    """True if its memory may be reused: it was allocated for this tensor, and holds its elements and nothing else."""
    if isinstance(tensor, LoopBuffer | Scatter):
        return True
    return isinstance(tensor, ExternOutput) and same_addresses(tensor.layout, contiguous(tensor.layout.size))


def _memory_for(name: str, free_list: list[str], tensors: Mapping[str, Tensor], *, reusable: bool) -> Step:
    requested = tensors[name]
    if reusable:
        # The newest first: it was used last, and is the most likely to be in a cache.
        for reused in reversed(free_list):
            candidate = tensors[reused]
            fits = (
                # Bytes count, not types. Symbolic spans have to be equal as formulas: hints are not good enough to
                # share memory by.
                candidate.layout.span == requested.layout.span and candidate.dtype.itemsize == requested.dtype.itemsize
            )
            if fits and candidate.device == requested.device:
                free_list.remove(reused)
                return Reuse(name, reused)
    return Allocate(name)


def _with_frees(
    steps: list[Step], free_list: list[str], last_use: dict[str, int], launches: list[Kernel | Extern]
) -> tuple[Step, ...]:
    freed_after: dict[int, list[str]] = {}
    for name in free_list:
        freed_after.setdefault(last_use[name], []).append(name)
    result: list[Step] = []
    at = -1
    for step in steps:
        result.append(step)
        if isinstance(step, (Kernel, Extern)):
            at += 1
            assert launches[at] is step
            result += [Free(name) for name in freed_after.get(at, ())]
    return tuple(result)
