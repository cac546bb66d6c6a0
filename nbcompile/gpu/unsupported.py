"""Operators that a kernel cannot contain: they are called through ATen instead.

    extern_operators(graph, planned, {"kernel0": ("no digamma", ("digamma",))})
        ("digamma", "no code for a GPU: no digamma")

In torch: torch/_inductor/lowering.py (make_fallback), for a whole operator. Read next: nbcompile/gpu/target.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch.fx

from nbcompile.ir.buffer import Extern
from nbcompile.ir.kernel import Kernel, Schedule
from nbcompile.lowering.extern import can_fall_back
from nbcompile.lowering.grouped_products import GroupedLaunch
from nbcompile.lowering.kernel_launches import INSIDE, KERNEL

UnsupportedKernels = Mapping[str, tuple[str, tuple[str, ...]]]
"""Reason and, where known, the fx nodes that need the missing operation, by name of the kernel."""


def _product(kernel: Kernel, planned: Schedule) -> tuple[str, ...]:
    """The fx node of a kernel's matrix product: if it alone is an extern call, what follows stays in a kernel."""
    part, tensors = kernel.product, planned.program.tensors()
    names = (name for name in kernel.buffers if part is not None and part.name in (name, f"{name}_wide"))
    return next((tensors[name].from_nodes[-1:] for name in names), ())


def extern_operators(
    graph_module: torch.fx.GraphModule, planned: Schedule, unsupported: UnsupportedKernels
) -> Iterator[tuple[str, str]]:
    """Operators to run as extern calls: those that need the missing operation, else all of the kernel's."""
    # Only these can be called through ATen instead (lowering/extern.py).
    able = {node.name for node in graph_module.graph.nodes if can_fall_back(node)}
    for kernel in planned.kernels():
        if kernel.name in unsupported:
            reason, unsupported_nodes = unsupported[kernel.name]
            # The smallest set first: the nodes that need what is missing, else the product, else
            # the whole kernel.
            nodes = able.intersection(unsupported_nodes) or able.intersection(
                _product(kernel, planned) or kernel.from_nodes
            )
            yield from ((node, f"no code for a GPU: {reason}") for node in sorted(nodes))
    for step in planned.steps:
        if isinstance(step, Extern) and step.name in unsupported:
            reason, _ = unsupported[step.name]
            yield from unmark(graph_module, step.from_nodes, f"no code for a GPU: {reason}")


def unmark(graph_module: torch.fx.GraphModule, names: Sequence[str], reason: str) -> Iterator[tuple[str, str]]:
    """Replace the launch of written kernels that cannot be compiled by the reason; iterate over the nodes."""
    for node in graph_module.graph.nodes:
        marked = node.meta.get(KERNEL)
        if node.name not in names or marked is None:
            continue
        last = node
        if isinstance(marked, GroupedLaunch):  # the product is called, and the epilogue is generated
            del last.meta[KERNEL]
            node = marked.product  # noqa: PLW2901
            inside = node
            while inside is not last:
                inside.meta.pop(INSIDE, None)
                (inside,) = inside.users
        node.meta[KERNEL] = reason
        yield node.name, reason
