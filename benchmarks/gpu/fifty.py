"""A function of fifty kernels, none of which can be fused with another: what cold and warm builds are measured with.

    function, inputs = fifty.program()
    function(*inputs)        50 results, each of an input and of sizes of its own

Read next: benchmarks/gpu/builds.py
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional

COUNT = 50
ROWS = 2048
"""So many that no two kernels are joined in one launch (scheduling/side_by_side.py)."""
Part = Callable[[torch.Tensor], torch.Tensor]


def gelu_and_scale(x: torch.Tensor) -> torch.Tensor:
    """Elements alone."""
    return functional.gelu(x) * 0.5 + x.sigmoid()


def trigonometric(x: torch.Tensor) -> torch.Tensor:
    """Longer expressions of elements."""
    return torch.sin(x) * torch.exp(-x.abs()) + torch.tanh(x * 0.3)


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Rows, reduced twice."""
    return torch.softmax(x * 0.125, -1)


def layer_norm(x: torch.Tensor) -> torch.Tensor:
    """Rows, mean and variance."""
    return functional.layer_norm(x, x.shape[-1:])


def root_mean_square(x: torch.Tensor) -> torch.Tensor:
    """Rows, one sum."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def row_sum(x: torch.Tensor) -> torch.Tensor:
    """Rows that become numbers."""
    return (x * x).sum(-1)


def column_maximum(x: torch.Tensor) -> torch.Tensor:
    """Columns that become numbers."""
    return torch.relu(x).amax(0)


def transpose(x: torch.Tensor) -> torch.Tensor:
    """Elements in another order."""
    return (x.t() + 1.0).contiguous()


def halves(x: torch.Tensor) -> torch.Tensor:
    """Two halves exchanged, as by a rotary embedding."""
    left, right = x.chunk(2, -1)
    return torch.cat([-right, left], -1) * 0.7 + x


def log_softmax(x: torch.Tensor) -> torch.Tensor:
    """Rows, with a logarithm."""
    return torch.log_softmax(x, -1) * -1.0


PARTS: tuple[Part, ...] = (
    gelu_and_scale, trigonometric, softmax, layer_norm, root_mean_square, row_sum, column_maximum, transpose, halves,
    log_softmax,
)  # fmt: skip


def program(
    device: str = "cpu", rows: int = ROWS
) -> tuple[Callable[..., tuple[torch.Tensor, ...]], list[torch.Tensor]]:
    """The function, and inputs of which no two have the same size."""
    inputs = [torch.ones(rows, 512 + 8 * at).to(device) for at in range(1, COUNT + 1)]

    def fifty(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(PARTS[at % len(PARTS)](x) for at, x in enumerate(given))

    return fifty, inputs
