"""Launches of kernels that were written for a node before the graph is lowered, as if they were the program's own.

    node.meta["nbcompile_kernel"] = GroupedLaunch(kernel 3, 24 programs, ...)
    ->  extern0 launches triton_grouped_mm(left, right, offsets, out)

In torch: torch/_inductor/select_algorithm.py (TritonTemplate). Read next: nbcompile/lowering/user_kernels.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nbcompile import torch_internals
from nbcompile.ir import buffer as ir
from nbcompile.ir.layout import Layout
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.value import Value

KERNEL = "nbcompile_kernel"
"""Mark of a node: launches, or the reason why there are none."""
INSIDE = "nbcompile_inside"
"""Mark of a node that the kernel of a later node computes."""
Passed = tuple[Value, Layout]
"""An argument, with the layout that the kernel has it in."""


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """A kernel and its launch."""

    kernel: int
    """Number of the kernel, and of its options, in torch's table of Triton kernels."""
    options: int
    programs: int
    parameters: tuple[str, ...]
    """Names of the arguments."""


def add_launch(
    build: Builder, launch: KernelLaunch, given: Mapping[str, Passed], written: Sequence[str], reason: str
) -> None:
    """Add the launch of a kernel that writes some of its arguments."""
    named = {name: build.as_argument(*given[name], False) for name in launch.parameters}
    keywords = {
        "kernel_idx": launch.kernel, "constant_args_idx": launch.options, "grid": [(launch.programs, 1, 1)],
        "tma_descriptor_metadata": {}, "kwargs": named,
    }  # fmt: skip
    mutated = tuple(named[name].buffer for name in written)
    target = torch_internals.triton_kernel_wrap().triton_kernel_wrapper_mutation
    build.add(ir.Extern(build.fresh("extern"), target, (), keywords, reason, mutated, build.origin()))
