"""Names of kernels: a number, and on a GPU also the operators, as profilers show nothing else of a launch.

    kernel_name(3, cpu, ("softmax",))                        kernel3
    kernel_name(3, cuda, ("softmax",))                       triton_softmax_3
    kernel_name(0, cuda, ("mul", "add_1", "add_2", "relu"))  triton_mul_add_relu_0

Only its wrapper calls a C++ kernel, and its range in a profile has the operators. The name of a GPU kernel is
what Nsight and ``torch.profiler`` print.

In torch: torch/_inductor/utils.py (get_fused_kernel_name). Read next: nbcompile/ir/profiler_ranges.py
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import torch

MOST_OPERATORS = 4
"""Operators in a name; of more, the first and the last ones."""


def kernel_name(number: int, device: torch.device, from_nodes: Iterable[str]) -> str:
    """Name of a kernel that computes some nodes of the graph; unique by its number."""
    if device.type != "cuda":
        return f"kernel{number}"
    operators = [name for name in dict.fromkeys(map(_operator, from_nodes)) if name]
    if len(operators) > MOST_OPERATORS:
        # The first and the last operators of a kernel identify it best; the length of a name is bounded.
        half = MOST_OPERATORS // 2
        operators = [*operators[:half], *operators[-half:]]
    return "_".join(("triton", *operators, str(number)))


def _operator(node: str) -> str:
    """``_softmax_2`` becomes ``softmax``: a node is named by its operator, with a number from the second one on."""
    return re.sub(r"_\d+$", "", re.sub(r"\W", "_", node)).strip("_")
