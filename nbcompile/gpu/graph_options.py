"""Options with which one ATen graph is compiled for a GPU: for one of this machine, or for a simulated one.

    GraphOptions(attribute, keep_sharing=True)                          products through ATen, no CUDA graph
    GraphOptions(attribute, keep_sharing=True, backends=("TRITON",))    generated kernels for products as well

In torch: torch/_inductor/config.py, which is global. Read next: nbcompile/gpu/launched.py
"""

from __future__ import annotations

from dataclasses import dataclass

from nbcompile.runtime.program import Attribute


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """Options of the user's for graphs on a GPU."""

    debug: bool = False
    """Wait after each launch."""
    cuda_graphs: bool = False
    """Record the graph as a CUDA graph where that can be done."""


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """Options of the lowering, of the scheduling and of the launches of one graph."""

    attribute: Attribute
    """Function that reads a parameter or buffer of the graph."""
    keep_sharing: bool
    """True if outputs must share memory with inputs and with each other as in eager mode."""
    generate_random: bool = False
    """True if kernels draw random numbers themselves, instead of ATen."""
    backends: tuple[str, ...] = ("ATEN",)
    """Candidates for matrix products: ``max_autotune_gemm_backends`` of Inductor."""
    buckets: bool = False
    """True if collectives are joined into buckets."""
    launch: LaunchOptions = LaunchOptions()
    """The user's options for launches on a GPU of this machine."""
