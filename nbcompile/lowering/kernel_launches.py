"""Launches of kernels that were written for a node before the graph is lowered.

    node.meta["nbcompile_kernel"] = GroupedLaunch(WrittenKernel("triton_grouped_mm", ...), ...)
    ->  triton_grouped_mm0 launches triton_grouped_mm(left, right, offsets, out)

In torch: torch/_inductor/select_algorithm.py (TritonTemplate). Read next: nbcompile/codegen/written_kernels.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nbcompile.ir import buffer as ir
from nbcompile.ir.layout import Layout
from nbcompile.ir.written_kernel import WrittenKernel
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.value import Value

KERNEL = "nbcompile_kernel"
"""Mark of a node: launches, or the reason why there are none."""
INSIDE = "nbcompile_inside"
"""Mark of a node that the kernel of a later node computes."""
Passed = tuple[Value, Layout]
"""An argument, with the layout that the kernel has it in."""


def add_launch(
    build: Builder, kernel: WrittenKernel, given: Mapping[str, Passed], written: Sequence[str], reason: str
) -> None:
    """Add the launch of a kernel that writes some of its arguments."""
    named = {name: build.as_argument(*given[name], False) for name in kernel.parameters}
    mutated = tuple(named[name].buffer for name in written)
    arguments = tuple(named.values())
    build.add(ir.Extern(build.fresh(kernel.name), kernel, arguments, {}, reason, mutated, build.origin()))
