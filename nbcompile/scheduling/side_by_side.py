"""Horizontal fusion on a GPU: small kernels that do not depend on one another are one launch.

    kernel0: 4096 elements     kernel1: 300 elements     kernel2: 105 elements      (an optimiser over three tensors)
    ->  one launch: programs 0 to 31 run kernel0, 32 to 34 kernel1, 35 kernel2

To launch a kernel takes some microseconds, as long as to move some megabytes. Loops of different lengths cannot be
fused, but different programs of a launch may run different loops. On a CPU a kernel is a call, and they stay apart.

In torch: torch/_inductor/scheduler.py (ForeachKernelSchedulerNode), codegen/triton_combo_kernel.py. Read next:
nbcompile/scheduling/memory.py
"""

from __future__ import annotations

from collections.abc import Sequence

from nbcompile.ir.buffer import Extern
from nbcompile.ir.index import constant, product
from nbcompile.ir.kernel import Kernel, Nest, Update

MOST_ELEMENTS = 1 << 20
"""Elements: a longer kernel takes so much longer than a launch that to launch it apart costs little. Not measured."""
MOST_POINTERS = 240
"""Pointers: a kernel's parameters have 4 KB in CUDA."""


def combine(launches: Sequence[Kernel | Extern]) -> list[Kernel | Extern]:
    """Join each small kernel to an earlier one, where nothing between them needs to run before it."""
    # Greedy, in the order of the launches: a kernel moves forward to the group that it joins, and
    # no group is divided again.
    found: list[list[Kernel] | Extern] = []
    for launch in launches:
        if isinstance(launch, Extern):
            found.append(launch)
        elif (group := _group_for(launch, found)) is not None:
            group.append(launch)
        else:
            found.append([launch])
    return [entry if isinstance(entry, Extern) else _together(entry) for entry in found]


def _group_for(kernel: Kernel, before: Sequence[list[Kernel] | Extern]) -> list[Kernel] | None:
    """The latest group that a kernel can join."""
    if not _is_small(kernel):
        return None
    # From the latest one: so a kernel moves over as few others as possible, each of which was
    # compared with it on the way.
    for entry in reversed(before):
        # A kernel is never moved over an extern call: whether it depends on that is not compared here.
        if isinstance(entry, Extern):
            return None
        # Programs of one launch run at the same time, so it cannot join; and it cannot move before what it depends on.
        if any(_depends(kernel, other) for other in entry):
            return None
        pointers = {name for other in (*entry, kernel) for name in (*other.reads, *other.writes)}
        if _is_small(entry[0]) and entry[0].device == kernel.device and len(pointers) <= MOST_POINTERS:
            return entry
    return None


def _is_small(kernel: Kernel) -> bool:
    """Return whether a kernel is a short loop without reductions and scatters, of known length."""
    elements = constant(product([loop.size for loop in kernel.loops]))
    simple = not kernel.scratch and not any(isinstance(part, (Nest, Update)) for part in kernel.body)
    return kernel.device.type == "cuda" and simple and elements is not None and 0 < elements <= MOST_ELEMENTS


def _depends(kernel: Kernel, earlier: Kernel) -> bool:
    """Return whether a kernel must run after an earlier one, as one of them writes what the other accesses."""
    return bool(
        {*kernel.reads, *kernel.writes} & {*earlier.writes} or {*kernel.writes} & {*earlier.reads, *earlier.writes}
    )


def _together(kernels: Sequence[Kernel]) -> Kernel:
    if len(kernels) == 1:
        return kernels[0]

    def union(attribute: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for kernel in kernels for name in getattr(kernel, attribute)))

    # No loops and no statements of its own: each part keeps its own. A buffer that several of them
    # access is one pointer.
    name = "triton_for_" + kernels[0].name.removeprefix("triton_")
    return Kernel(
        name, kernels[0].device, (), (), (), union("reads"), union("writes"), union("buffers"), union("from_nodes"),
        parts=tuple(kernels),
    )  # fmt: skip
