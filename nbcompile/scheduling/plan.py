"""From a program to a schedule: kernels in order, and their memory.

    program -> dead code out -> small tensors inlined -> circles opened
    -> groups -> cheap values computed again -> kernels -> memory

In torch: torch/_inductor/scheduler.py (Scheduler.__init__). Read next:
nbcompile/scheduling/dependencies.py
"""

from __future__ import annotations

from collections.abc import Callable

from nbcompile.ir.buffer import Extern, Program, Scatter, views_in
from nbcompile.ir.kernel import Kernel, Schedule
from nbcompile.scheduling.again import compute_again
from nbcompile.scheduling.build import build_kernel
from nbcompile.scheduling.circles import open_circles
from nbcompile.scheduling.dependencies import reads, without_dead_code
from nbcompile.scheduling.fuse import Unit, fuse
from nbcompile.scheduling.inline import inline_small
from nbcompile.scheduling.ledger import ledger
from nbcompile.scheduling.memory import plan_memory
from nbcompile.scheduling.narrow import narrow_counts
from nbcompile.scheduling.scatter import scatter_kernel

PASSES: tuple[Callable[[Program], Program], ...] = (without_dead_code, inline_small, open_circles, narrow_counts)
"""What is done to a program before its loops are fused, in order."""


def schedule(program: Program, after_each: Callable[[Program], None] = lambda _: None) -> Schedule:
    """Fuse, order, and plan memory. ``after_each`` sees the program after each pass (the tests verify it)."""
    for rewrite in PASSES:
        program = rewrite(program)
        after_each(program)
    units, tried = fuse(program)
    program = compute_again(program, units)
    after_each(program)
    launches = _launches(program, units)
    return Schedule(program, plan_memory(program, launches), ledger(program, launches, tried))


def _launches(program: Program, units: list[Unit]) -> list[Kernel | Extern]:
    tensors = program.tensors()
    alone = {each.name: each for each in program.buffers if isinstance(each, (Extern, Scatter))}
    readers: dict[str, set[str]] = {}
    for buffer in program.buffers:
        for name in reads(buffer):
            readers.setdefault(name, set()).add(buffer.name)
    returned = {each.buffer for each in views_in(program.outputs)}
    launches: list[Kernel | Extern] = []
    kernels = 0
    for unit in units:
        if unit.group is None:
            for each in (alone[name] for name in unit.names if name in alone):
                launches.append(each if isinstance(each, Extern) else scatter_kernel(f"kernel{kernels}", each, tensors))
                kernels += isinstance(each, Scatter)
            continue
        stored = {name for name in unit.names if name in returned or readers.get(name, set()) - unit.names}
        launches.append(build_kernel(f"kernel{kernels}", unit.group, stored, tensors))
        kernels += 1
    return launches
