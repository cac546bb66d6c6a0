"""The programs that are measured, by name: each makes a function and its arguments.

    fresh("softmax")  ->  Program(function, (x,))
    fresh("softmax", 64, 1024)                       the same at another size

The sixteen of ``PROGRAMS`` are what a compiler is judged by: chains, softmax and norms, reductions, a gather, a scan,
a matrix product, a convolution, attention, an optimizer, a training step. Each is made anew for every candidate, from
the same seed, so a program that changes its own state (an optimizer) starts where the others start.

Read next: benchmarks/tasks.py
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

Made = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function and its arguments."""


@dataclass(frozen=True, slots=True)
class Program:
    """A function to compile, its arguments, and what is done with its result (nothing, or a backward pass)."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    finish: Callable[[Any], Any] | None = None

    def called(self, function: Callable[..., Any]) -> Callable[[], Any]:
        """The whole program as a call without arguments, ``function`` in the place of its own."""
        match self.arguments, self.finish:
            case [(only,), None]:  # no cost of unpacking beside the call
                return lambda: function(only)
            case [(one, two), None]:
                return lambda: function(one, two)
            case [arguments, None]:
                return lambda: function(*arguments)
            case [arguments, finish]:
                return lambda: finish(function(*arguments))


def gelu_linear(rows: int = 512, inner: int = 1024, columns: int = 1024) -> Program:
    def gelu_linear(x, w, b):
        return F.gelu(x @ w + b)

    return Program(gelu_linear, (torch.randn(rows, inner), torch.randn(inner, columns) / 32, torch.randn(columns)))


def softmax(rows: int = 8192, columns: int = 1024) -> Program:
    return Program(lambda x: torch.softmax(x, dim=-1), (torch.randn(rows, columns),))


def layernorm_residual(rows: int = 8192, columns: int = 1024) -> Program:
    weight, bias = torch.randn(columns), torch.randn(columns)

    def layernorm_residual(x, y):
        return F.layer_norm(x + F.dropout(y, 0.1, training=False), (columns,), weight, bias)

    return Program(layernorm_residual, (torch.randn(rows, columns), torch.randn(rows, columns)))


def rmsnorm_swiglu(rows: int = 256, width: int = 768, hidden: int = 2048) -> Program:
    def rmsnorm_swiglu(x, weight, gate, up, down):
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight
        return (F.silu(x @ gate) * (x @ up)) @ down

    matrices = (torch.randn(width, hidden) / 28, torch.randn(width, hidden) / 28, torch.randn(hidden, width) / 45)
    return Program(rmsnorm_swiglu, (torch.randn(rows, width), torch.randn(width), *matrices))


def cross_entropy(rows: int = 2048, classes: int = 8192) -> Program:
    def cross_entropy(x, target):
        return F.nll_loss(F.log_softmax(x, dim=-1), target)

    return Program(cross_entropy, (torch.randn(rows, classes), torch.randint(classes, (rows,))))


def convolution(batch: int = 8, channels: int = 64, size: int = 56) -> Program:
    net = torch.nn.Sequential(
        torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False), torch.nn.BatchNorm2d(channels), torch.nn.ReLU()
    )
    return Program(net.eval().requires_grad_(False), (torch.randn(batch, channels, size, size),))


def sdpa_causal(batch: int = 2, heads: int = 8, length: int = 512, width: int = 64) -> Program:
    def sdpa_causal(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    return Program(sdpa_causal, tuple(torch.randn(3, batch, heads, length, width).unbind()))


def attention_by_hand(batch: int = 2, heads: int = 8, length: int = 512, width: int = 64) -> Program:
    def attention_by_hand(q, k, v, mask):
        scores = q @ k.transpose(-2, -1) / width**0.5
        scores = scores.masked_fill(mask == 0, float("-inf"))
        return torch.softmax(scores, dim=-1) @ v

    mask = torch.ones(length, length).tril()
    return Program(attention_by_hand, (*torch.randn(3, batch, heads, length, width).unbind(), mask))


def adam(tensors: int = 50, size: int = 100_000) -> Program:
    parameters = [torch.nn.Parameter(torch.randn(size)) for _ in range(tensors)]
    for parameter in parameters:
        parameter.grad = torch.randn(size)
    optimizer = torch.optim.Adam(parameters, lr=1e-3)

    def adam_step():
        optimizer.step()

    return Program(adam_step, (), lambda _: parameters)


def three_reductions(rows: int = 4096, columns: int = 2048) -> Program:
    def three_reductions(x):
        return (x * x).sum(), x.abs().max(), (x + 1).mean(0)

    return Program(three_reductions, (torch.randn(rows, columns),))


def embedding_sum(bags: int = 4096, length: int = 32, width: int = 256, words: int = 50_000) -> Program:
    table = torch.randn(words, width)
    return Program(lambda at: F.embedding(at, table).sum(1), (torch.randint(words, (bags, length)),))


def cumulative_sum(rows: int = 4096, columns: int = 2048) -> Program:
    return Program(lambda x: torch.cumsum(2 * x + 1, dim=-1), (torch.randn(rows, columns),))


def chain10(size: int) -> Program:
    def chain10(x, y):
        a = torch.tanh(x * y + 1.0)
        a = torch.sigmoid(F.gelu(a * x) + y)
        return torch.sqrt(torch.exp(-a))

    return Program(chain10, (torch.randn(size), torch.randn(size)))


def mlp_training(batch: int = 256, width: int = 1024) -> Program:
    net, loss, arguments = mlp(width, batch)
    parameters = list(net.parameters())

    def gradients(result):
        return (result, *torch.autograd.grad(result, parameters))

    return Program(loss, arguments, gradients)


PROGRAMS: dict[str, Callable[[], Program]] = {
    "gelu(x@w+b) 512x1024x1024": gelu_linear,
    "softmax 8192x1024": softmax,
    "layernorm+residual 8192x1024": layernorm_residual,
    "RMSNorm+SwiGLU 256x768x2048": rmsnorm_swiglu,
    "log_softmax+nll 2048x8192": cross_entropy,
    "conv3x3+bn+relu 8x64x56x56": convolution,
    "SDPA causal 2x8x512x64": sdpa_causal,
    "attention by hand + mask": attention_by_hand,
    "Adam step, 50 tensors of 1e5": adam,
    "3 reductions over 4096x2048": three_reductions,
    "embedding gather + sum 4096x32x256": embedding_sum,
    "cumsum(2x+1) 4096x2048": cumulative_sum,
    "10-op chain, 1e3": lambda: chain10(1_000),
    "10-op chain, 1e5": lambda: chain10(100_000),
    "10-op chain, 1e7": lambda: chain10(10_000_000),
    "3-layer GELU MLP fwd+bwd 256x1024": mlp_training,
}
QUICK = ("softmax 8192x1024", "10-op chain, 1e5", "3 reductions over 4096x2048")
"""What a quick run measures of them."""


def gelu_chain(size: int) -> Program:
    return Program(lambda x, y: F.gelu(x * y + 1.0) * x, (torch.randn(size), torch.randn(size)))


def relu_mean_of_two(size: int) -> Program:
    return Program(lambda x, y: torch.relu(x + y) / 2, (torch.randn(size), torch.randn(size)))


@dataclass(frozen=True, slots=True)
class Sized:
    """A program at several sizes: small, in cache, and beyond cache."""

    make: Callable[..., Program]
    sizes: tuple[tuple[int, ...], ...]
    quick: tuple[tuple[int, ...], ...]


# 16 MiB and 64 MiB outputs lie on the two sides of glibc's largest mmap threshold (32 MiB).
ROWS = ((64, 1024), (1024, 1024), (4096, 1024), (16384, 1024))
SIZED = {
    "softmax": Sized(softmax, ROWS, ((64, 1024), (4096, 1024))),
    "layernorm+residual": Sized(layernorm_residual, ROWS, ((64, 1024), (4096, 1024))),
    "gelu chain": Sized(gelu_chain, ((1_000,), (100_000,), (4_194_304,), (16_777_216,)), ((100_000,), (4_194_304,))),
    "relu((x+y))/2": Sized(relu_mean_of_two, ((100_000,), (16_777_216,)), ((100_000,),)),
}
BANDWIDTH: dict[str, tuple[Callable[[], Program], int]] = {
    "relu((x+y))/2": (lambda: relu_mean_of_two(1 << 25), 3 << 27),
    "softmax": (lambda: softmax(1 << 15, 1024), 2 << 27),
    "layernorm+residual": (lambda: layernorm_residual(1 << 15, 1024), 3 << 27),
}
"""Programs on tensors of 128 MiB, and how many bytes they must read and write."""


def fresh(make: Callable[[], Program]) -> Program:
    """A program with its data, the same each time."""
    torch.manual_seed(0)
    return make()


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


def many_nodes(count: int) -> Program:
    """About ``count`` operators, pointwise and reductions: what a compiler's own passes cost."""

    def many_nodes(x, y):
        for at in range(count // 10):  # each turn takes from what the last one made: differences die out
            x = torch.sin(x / 3 + y + at / 7)
            y = y / 3 - x.mean(-1, keepdim=True) / 9
            x = torch.relu(x) - (x.amax(-1, keepdim=True) / 9 if at % 4 else 0.5)
        return x + y

    return Program(many_nodes, (torch.randn(32, 64), torch.randn(32, 64)))
