"""Kernels that are written as text for one node: put into torch's table of Triton kernels, as the program's own are.

    kernel_launch(text, "triton_grouped_mm", 24, ("left", ...), tile)     KernelLaunch(kernel 3, options 3, 24 programs)

In torch: torch/_inductor/select_algorithm.py (TritonTemplate). Read next: nbcompile/lowering/kernel_launches.py
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nbcompile import torch_internals
from nbcompile.ir.kernel import ProductTile
from nbcompile.lowering.kernel_launches import KernelLaunch
from nbcompile.support import lazy_import

if TYPE_CHECKING:
    from nbcompile.runtime import triton as runtime_triton
else:  # imported where such a node is met: a process that launches does without Triton
    runtime_triton = lazy_import.module("nbcompile.runtime.triton")


def kernel_launch(source: str, name: str, programs: int, parameters: Sequence[str], tile: ProductTile) -> KernelLaunch:
    """Add a kernel to the table.

    Args:
        source: Its module's text.
        name: Of the function there.
        programs: How many there are.
        parameters: Names of its arguments.
        tile: Says how many warps and stages.
    """
    table = torch_internals.triton_kernel_wrap().kernel_side_table
    options = {"num_warps": tile.warps, "num_stages": tile.stages}
    kernel = table.add_kernel(_function(source, name))
    return KernelLaunch(kernel, table.add_constant_args(options), programs, tuple(parameters))


@functools.lru_cache(maxsize=256)
def _function(source: str, name: str) -> Any:
    """The kernel, from a file of its own, as Triton reads it there."""
    return getattr(runtime_triton.load_source(source), name)
