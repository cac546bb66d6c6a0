"""The programs that are measured, by name: each makes a function and its arguments for a size.

    make("softmax", (64, 1024))  ->  (function, (x,))

Read next: benchmarks/tasks.py
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

Made = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Workload:
    """A program at several sizes; ``sizes`` are small, in cache, and beyond cache."""

    make: Callable[..., Made]
    sizes: tuple[tuple[int, ...], ...]
    quick: tuple[tuple[int, ...], ...]


def softmax(rows: int, columns: int) -> Made:
    return (lambda x: torch.softmax(x, dim=-1)), (torch.randn(rows, columns),)


def layernorm_residual(rows: int, columns: int) -> Made:
    weight, bias = torch.randn(columns), torch.randn(columns)

    def layernorm_residual(x, y):
        return F.layer_norm(x + y, (columns,), weight, bias)

    return layernorm_residual, (torch.randn(rows, columns), torch.randn(rows, columns))


def gelu_chain(size: int) -> Made:
    return (lambda x, y: F.gelu(x * y + 1.0) * x), (torch.randn(size), torch.randn(size))


def chain10(size: int) -> Made:
    def chain10(x, y):
        a = torch.sigmoid(x * 1.5 + y)
        b = torch.tanh(a - y)
        c = torch.exp(-b)
        return (c + a) / (1.0 + c)

    return chain10, (torch.randn(size), torch.randn(size))


def relu_mean_of_two(size: int) -> Made:
    return (lambda x, y: torch.relu(x + y) / 2), (torch.randn(size), torch.randn(size))


# 16 MiB and 64 MiB outputs lie on the two sides of glibc's largest mmap threshold (32 MiB).
KERNELS = {
    "softmax": Workload(softmax, ((64, 1024), (1024, 1024), (4096, 1024), (16384, 1024)), ((64, 1024), (4096, 1024))),
    "layernorm+residual": Workload(
        layernorm_residual, ((64, 1024), (1024, 1024), (4096, 1024), (16384, 1024)), ((64, 1024), (4096, 1024))
    ),
    "gelu chain": Workload(gelu_chain, ((1_000,), (100_000,), (4_194_304,), (16_777_216,)), ((100_000,), (4_194_304,))),
    "10-op chain": Workload(chain10, ((1_000,), (100_000,), (4_194_304,), (16_777_216,)), ((1_000,), (100_000,))),
    "relu((x+y))/2": Workload(relu_mean_of_two, ((100_000,), (16_777_216,)), ((100_000,),)),
}


def three_ops() -> Made:
    """The smallest realistic graph: what a call costs beside its arithmetic."""
    return (lambda x, y: torch.relu(x + y) * 2), (torch.randn(4), torch.randn(4))


def linear_layers(count: int) -> Made:
    """As many Linear layers as asked for: what guards on modules cost."""
    net = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(count))).requires_grad_(False)
    return net, (torch.randn(2, 4),)


def nested_break(depth: int) -> Made:
    """A chain of calls with one graph break at the bottom."""

    def bottom(x):
        x = x + 1
        torch._dynamo.graph_break()
        return x + 2

    def caller(inner):
        # Each level has code of its own, as functions written one by one would have.
        scope: dict[str, Any] = {"inner": inner}
        exec(compile("def level(x):\n    x = x + 1\n    x = inner(x)\n    return x + 2\n", "<level>", "exec"), scope)
        return scope["level"]

    function = bottom
    for _ in range(depth):
        function = caller(function)
    return function, (torch.randn(4),)


def mlp(width: int, batch: int) -> tuple[torch.nn.Module, Callable[..., Any], tuple[Any, ...]]:
    """Three layers with GELU and a loss: the module, the loss function, its arguments."""
    net = torch.nn.Sequential(
        torch.nn.Linear(width, width), torch.nn.GELU(),
        torch.nn.Linear(width, width), torch.nn.GELU(),
        torch.nn.Linear(width, width),
    )  # fmt: skip

    def loss(x, y):
        return F.mse_loss(net(x), y)

    return net, loss, (torch.randn(batch, width), torch.randn(batch, width))
