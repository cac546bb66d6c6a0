"""A graph and its inputs as a program that runs by itself and fails.

    def graph(x):
        return (torch.ops.aten.relu.default(x),)

    torch.manual_seed(0)
    inputs = [torch.randn(4, dtype=torch.float32)]
    ...
    AssertionError: value 0 differs

Inputs are generated from a seed if the graph is still wrong with them; otherwise small ones are written out.

In torch: torch/_dynamo/repro/after_dynamo.py. Read next: nbcompile/tools/diagnose/minify.py
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx

MOST_ELEMENTS = 64
"""Number of elements up to which a tensor is written out."""
COPIES = """copies = [
    value.detach().clone().requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value
    for value in inputs
]
"""
NAMES = "import math\nimport operator\n\nimport torch\nfrom torch import device, inf, nan, tensor\n"


def write(
    graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    backend: str,
    engine: str,
    difference: str,
    *,
    with_values: bool = True,
) -> str:
    """Write the program; without values, all tensors are random."""
    compiler = "nbcompile" if engine == "nbcompile" else "torch"
    imports = NAMES + ("import nbcompile\n" if engine == "nbcompile" else "")
    body = graph.code.strip().replace("def forward(self, ", "def graph(").replace("def forward(self)", "def graph()")
    values = textwrap.indent("\n".join(f"{_input(value, with_values)}," for value in inputs), "    ")
    title = "\n".join(f"# {line}" for line in (difference or "a graph").splitlines())
    call = f"found = {compiler}.compile(graph, backend={backend!r})(*copies)"
    return (
        f"{title}\n# torch {torch.__version__}, backend {backend}\n\n{imports}\n\n{body}\n\n\n"
        f"torch.manual_seed(0)\ninputs = [\n{values}\n]\n{COPIES}expected = graph(*inputs)\n{call}\n"
        "torch.testing.assert_close(found, expected, equal_nan=True)\n"
    )


def _input(value: Any, with_values: bool) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    gradient = ", requires_grad=True" if value.requires_grad else ""
    if with_values and value.numel() <= MOST_ELEMENTS:
        return f"tensor({value.detach().tolist()!r}, dtype={value.dtype}{gradient})"
    size = tuple(value.shape)
    if value.is_floating_point() or value.is_complex():
        return f"torch.randn({size}, dtype={value.dtype}{gradient})"
    if value.dtype is torch.bool:
        return f"torch.rand({size}) > 0.5"
    low, high = (int(value.min()), int(value.max())) if value.numel() else (0, 0)
    return f"torch.randint({low}, {high + 1}, {size}, dtype={value.dtype})"
