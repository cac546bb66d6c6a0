"""Schedule of a program: kernels in order, and their memory.

    program -> buckets of collectives, if requested -> dead code elimination -> small producers inlined
    -> mutation cycles broken -> int64 sums narrowed -> fusion groups -> collectives early, waits late
    -> cheap producers recomputed -> kernels -> small ones side by side (GPU) -> memory plan

In torch: torch/_inductor/scheduler.py (Scheduler.__init__). Read next:
nbcompile/scheduling/dependencies.py
"""

from __future__ import annotations

from collections.abc import Callable

from nbcompile.ir.buffer import Extern, Program, Scatter, views_in
from nbcompile.ir.kernel import Kernel, Schedule
from nbcompile.scheduling.build import build_kernel
from nbcompile.scheduling.collective_buckets import bucket_collectives
from nbcompile.scheduling.collectives import overlapped
from nbcompile.scheduling.dependencies import eliminate_dead_code, reads
from nbcompile.scheduling.fuse import fuse
from nbcompile.scheduling.fusion_log import fusion_log
from nbcompile.scheduling.inline import inline_small
from nbcompile.scheduling.int32_narrowing import narrow_count_sums
from nbcompile.scheduling.kernel_names import kernel_name
from nbcompile.scheduling.memory import plan_memory
from nbcompile.scheduling.mutation_cycles import break_mutation_cycles
from nbcompile.scheduling.recompute import recompute_in_consumers
from nbcompile.scheduling.scatter import scatter_kernel
from nbcompile.scheduling.side_by_side import combine
from nbcompile.scheduling.units import Unit
from nbcompile.scheduling.waiting import with_waits_in_words
from nbcompile.support import fuel

PASSES: tuple[Callable[[Program], Program], ...] = (
    # Dead readers would count against inlining. Inlining moves reads, hence cycles are looked for after it.
    eliminate_dead_code,
    inline_small,
    break_mutation_cycles,
    narrow_count_sums,
)
"""The passes over a program before its loops are fused, in order."""
NEEDED = (break_mutation_cycles,)
"""The passes without which there is no order of launches; the others only improve the program."""


def schedule(
    program: Program, after_pass: Callable[[Program], None] = lambda _: None, *, buckets: bool = False
) -> Schedule:
    """Fuse, order, and plan memory.

    Args:
        program: What was lowered.
        after_pass: Sees the program after each pass (the tests verify it).
        buckets: Small collectives of one kind become one call (collective_buckets.py).
    """
    if buckets:
        program = bucket_collectives(program)
        after_pass(program)
    for rewrite in PASSES:
        if rewrite in NEEDED or fuel.allows("pass", rewrite.__name__):
            program = rewrite(program)
            after_pass(program)
    units, attempts = fuse(program)
    units = overlapped(program, units)
    if fuel.allows("pass", recompute_in_consumers.__name__):
        # After fusion, as only then it is known which consumers are in other kernels; the units stay.
        program = recompute_in_consumers(program, units)
    after_pass(program)
    launches = _launches(program, units)
    # The log is about buffers and kernels before they are put side by side.
    together = combine(launches) if fuel.allows("pass", combine.__name__) else launches
    together = with_waits_in_words(program, together)
    return Schedule(program, plan_memory(program, together), fusion_log(program, launches, attempts))


def _launches(program: Program, units: list[Unit]) -> list[Kernel | Extern]:
    tensors = program.tensors()
    ungrouped = {buffer.name: buffer for buffer in program.buffers if isinstance(buffer, (Extern, Scatter))}
    readers: dict[str, set[str]] = {}
    for buffer in program.buffers:
        for name in reads(buffer):
            readers.setdefault(name, set()).add(buffer.name)
    returned = {view.buffer for view in views_in(program.outputs)}
    launches: list[Kernel | Extern] = []
    kernels = 0
    for unit in units:
        if unit.group is None:
            for buffer in (ungrouped[name] for name in unit.names if name in ungrouped):
                if isinstance(buffer, Extern):
                    launches.append(buffer)
                else:
                    name = kernel_name(kernels, buffer.device, buffer.from_nodes)
                    launches.append(scatter_kernel(name, buffer, tensors))
                    kernels += 1
            continue
        # What only its own kernel reads is never stored: it stays in registers or scratch rows.
        stored = {name for name in unit.names if name in returned or readers.get(name, set()) - unit.names}
        name = kernel_name(kernels, unit.group.members[0].buffer.device, unit.group.from_nodes())
        launches.append(build_kernel(name, unit.group, stored, tensors))
        kernels += 1
    return launches
