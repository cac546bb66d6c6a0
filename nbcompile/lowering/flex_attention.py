"""Attention whose scores functions change, on a GPU: the launch of a kernel that was made for the node.

    flex_attention(q, k, v, score, (.., mask), 0.125)    extern0 launches triton_flex_attention(q, k, v, out, sums, ...)

It is launched like the program's own Triton kernels (user_kernels.py). A node without a kernel has the reason.

In torch: torch/_inductor/kernel/flex/flex_attention.py. Read next: nbcompile/gpu/flex_attention.py
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from nbcompile import torch_internals
from nbcompile.ir import buffer as ir, compiled_artifact
from nbcompile.ir.layout import of_tensor
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.registry import NoLowering
from nbcompile.lowering.user_kernels import memory_for

OPERATOR = torch.ops.higher_order.flex_attention
KERNEL = "nbcompile_flex_kernel"
"""Mark of a node: a :class:`FlexLaunch`, or the reason why there is none."""
REASON = "flex attention: one kernel, which holds no scores in memory"


@dataclass(frozen=True, slots=True)
class FlexLaunch:
    """A kernel and its launch."""

    kernel: int
    """Number of the kernel, and of its options, in torch's table of Triton kernels."""
    options: int
    grid: tuple[int, int, int]
    parameters: tuple[str, ...]
    """Names of the arguments: query, keys, values, the two results, and others."""
    arguments: tuple[fx.Node, ...]
    """The same without the results."""


def lower_flex_attention(build: Builder, node: fx.Node, values: Mapping[fx.Node, Any]) -> tuple[Any, ...]:
    """Add the launch; return the result and the logarithms of the sums.

    Raises:
        NoLowering: with the reason why there is no kernel.
    """
    launch = node.meta[KERNEL]
    if not isinstance(launch, FlexLaunch):
        raise NoLowering(launch)
    fakes = node.meta["val"][:2]
    out, sums = (memory_for(build, fake) for fake in fakes)
    passed = [(values[argument], argument.meta["val"]) for argument in launch.arguments]
    passed[3:3] = [(out, fakes[0]), (sums, fakes[1])]
    given = {
        name: build.as_argument(value, of_tensor(fake), False)
        for name, (value, fake) in zip(launch.parameters, passed, strict=True)
    }
    keywords = {
        "kernel_idx": launch.kernel, "constant_args_idx": launch.options, "grid": [launch.grid],
        "tma_descriptor_metadata": {}, "kwargs": given,
    }  # fmt: skip
    compiled_artifact.refuse("it launches a kernel of flex attention")
    written = (given["out"].buffer, given["sums"].buffer)
    target = torch_internals.triton_kernel_wrap().triton_kernel_wrapper_mutation
    build.add(ir.Extern(build.fresh("extern"), target, (), keywords, REASON, written, build.origin()))
    return out, sums, None
