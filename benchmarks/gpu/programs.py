"""The programs that are run on a GPU: 26 kernels and 6 models, each at the size of a GPU or of the simulator.

    KERNELS["softmax_1k"].make(size)         (function, arguments on the CPU)
    MODELS["transformer"].make(size)         (module, (input,))

A size is a number of elements: 1 << 24 float32 are the 64 MiB that no cache of a GPU holds.

Read next: benchmarks/gpu/kernels.py
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

Made = tuple[Callable[..., Any], tuple[Any, ...]]
FULL, SMALL = 1 << 24, 1 << 13


@dataclass(frozen=True, slots=True)
class GpuProgram:
    """A program of some size."""

    make: Callable[[int], Made]
    trains: bool = False
    """Whether a backward pass is part of it."""
    products: bool = False
    """Whether matrix products decide: then max-autotune has a choice."""


def _flat(size: int, count: int = 2, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(size).to(dtype) for _ in range(count))


def _rows(size: int, columns: int, count: int = 1, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(max(size // columns, 2), columns).to(dtype) for _ in range(count))


def _side(size: int) -> int:
    return 1 << (size.bit_length() // 2)


def _squares(side: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(side, side), torch.randn(side, side)


def _images_of(size: int) -> tuple[torch.Tensor]:
    side = _side(size) // 16 or 2
    return (torch.randn(4, 64, side, side),)


def _rms_norm(size: int) -> Made:
    inputs = (*_rows(size, 2048, 1, torch.bfloat16), torch.ones(2048, dtype=torch.bfloat16))
    return lambda x, w: F.rms_norm(x, (2048,), w), inputs


def _layer_norm_trains(size: int) -> Made:
    x, weight, bias = *_rows(size, 1024), torch.ones(1024), torch.zeros(1024)
    return lambda x, w, b: F.layer_norm(x, (1024,), w, b).sum(), tuple(t.requires_grad_() for t in (x, weight, bias))


def _cross_entropy_trains(size: int) -> Made:
    logits = torch.randn(max(size // 32000, 2), 32000, requires_grad=True)
    return F.cross_entropy, (logits, torch.randint(0, 32000, (logits.shape[0],)))


def _rope(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat((-second, first), -1) * sine


def _adam(size: int) -> Made:
    count = 8
    state = [torch.randn(size // count) for _ in range(4 * count)]

    def step(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = []
        for at in range(count):
            p, g, m, v = tensors[4 * at : 4 * at + 4]
            m = m * 0.9 + g * 0.1
            v = v.abs() * 0.999 + g * g * 0.001
            results += [p - 1e-3 * m / (v.sqrt() + 1e-8), m, v]
        return tuple(results)

    return step, tuple(state)


def _product(size: int) -> Made:
    side = _side(size) // 4 or 16
    made = [torch.randn(side, side).to(torch.bfloat16) for _ in range(2)]
    return lambda x, w, b: F.gelu(x @ w + b, approximate="tanh"), (*made, torch.randn(side).to(torch.bfloat16))


def _attention(size: int) -> Made:
    length = max(_side(size) // 4, 16)
    qkv = [torch.randn(1, 8, length, 64).to(torch.bfloat16) for _ in range(3)]
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), tuple(qkv)


def _batch_norm(size: int) -> Made:
    side = max(int((size // 64 // 8) ** 0.5), 4)
    x = torch.randn(8, 64, side, side)
    return lambda x, w, b: F.relu(F.batch_norm(x, None, None, w, b, training=True)), (
        x,
        torch.ones(64),
        torch.zeros(64),
    )


def _scatter(size: int) -> Made:
    rows = max(size // 256, 4)
    return (
        lambda x, at, new: x.index_add(0, at, new),
        (torch.randn(rows, 256), torch.randint(0, rows, (rows // 2,)), torch.randn(rows // 2, 256)),
    )


def _embedding(size: int) -> Made:
    count = max(size // 512, 8)
    return lambda ids, table: F.embedding(ids, table) * 2, (torch.randint(0, 1000, (count,)), torch.randn(1000, 512))


KERNELS: dict[str, GpuProgram] = {
    "add_relu": GpuProgram(lambda size: (lambda x, y: torch.relu(x + y), _flat(size))),
    "gelu": GpuProgram(lambda size: (F.gelu, _flat(size, 1))),
    "swiglu_bf16": GpuProgram(lambda size: (lambda x, y: F.silu(x) * y, _flat(size, 2, torch.bfloat16))),
    "bias": GpuProgram(lambda size: (lambda x, b: x + b, (*_rows(size, 1024), torch.randn(1024)))),
    "cast_bf16": GpuProgram(lambda size: (lambda x: x.to(torch.bfloat16), _flat(size, 1))),
    "mask": GpuProgram(lambda size: (lambda x: x.masked_fill(x < 0, -1e9), _flat(size, 1))),
    "transpose_add": GpuProgram(lambda size: (lambda x, y: x.t() + y, _squares(_side(size)))),
    "channels_last": GpuProgram(lambda size: (lambda x: x.permute(0, 2, 3, 1).contiguous(), _images_of(size))),
    "cat": GpuProgram(lambda size: (lambda x, y: torch.cat((x, y * 2), -1), _rows(size, 512, 2))),
    "rope": GpuProgram(lambda size: (_rope, (*_rows(size, 128), torch.randn(128), torch.randn(128)))),
    "sum_all": GpuProgram(lambda size: (lambda x: x.sum(), _flat(size, 1))),
    "sum_rows": GpuProgram(lambda size: (lambda x: x.sum(-1), _rows(size, 1024))),
    "sum_columns": GpuProgram(lambda size: (lambda x: x.sum(0), _rows(size, 256))),
    "var_mean": GpuProgram(lambda size: (lambda x: torch.var_mean(x, dim=-1), _rows(size, 2048))),
    "argmax": GpuProgram(lambda size: (lambda x: x.argmax(-1), _rows(size, 1024))),
    "softmax_1k": GpuProgram(lambda size: (lambda x: x.softmax(-1), _rows(size, 1024))),
    "softmax_32k": GpuProgram(lambda size: (lambda x: x.softmax(-1), _rows(size, 32000))),
    "log_softmax": GpuProgram(lambda size: (lambda x: F.log_softmax(x, -1), _rows(size, 1000))),
    "rms_norm_bf16": GpuProgram(_rms_norm),
    "layer_norm": GpuProgram(_layer_norm_trains, trains=True),
    "cross_entropy": GpuProgram(_cross_entropy_trains, trains=True),
    "batch_norm": GpuProgram(_batch_norm),
    "cumsum": GpuProgram(lambda size: (lambda x: x.cumsum(-1), _rows(size, 1024))),
    "embedding": GpuProgram(_embedding),
    "index_add": GpuProgram(_scatter),
    "adam": GpuProgram(_adam),
    "product_gelu_bf16": GpuProgram(_product, products=True),
    "attention_bf16": GpuProgram(_attention, products=True),
}  # fmt: skip


class Block(nn.Module):
    """A block of a transformer: attention and a perceptron, each after a norm and beside a residual."""

    def __init__(self, width: int, norm: Callable[[int], nn.Module], gated: bool) -> None:
        super().__init__()
        self.first, self.second = norm(width), norm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.gate = nn.Linear(width, 2 * width) if gated else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, -1, 16).transpose(1, 2) for t in self.qkv(self.first(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        y = self.second(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y) if self.gate is not None else F.gelu(self.up(y)))


def _transformer(size: int, norm: Callable[[int], nn.Module], gated: bool) -> Made:
    width, length = (1024, 512) if size >= FULL else (32, 8)
    return nn.Sequential(*(Block(width, norm, gated) for _ in range(4 if size >= FULL else 1))), (
        torch.randn(4 if size >= FULL else 1, length, width),
    )


class Residual(nn.Module):
    """A block of convolutions beside a residual."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(x + self.body(x))


class Ranking(nn.Module):
    """Embeddings of categories, and a perceptron over them, as recommenders have."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(1000, 16) for _ in range(8))
        self.top = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1), nn.Sigmoid())

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.top(torch.cat([table(ids[:, at]) for at, table in enumerate(self.tables)], -1))


class Recurrent(nn.Module):
    """A recurrent network with gates, written as a loop."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gates, self.new = nn.Linear(2 * width, 2 * width), nn.Linear(2 * width, width)
        self.head = nn.Linear(width, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = torch.zeros_like(x[0])
        for step in x:
            update, reset = self.gates(torch.cat([step, state], -1)).sigmoid().chunk(2, -1)
            state = torch.lerp(self.new(torch.cat([step, reset * state], -1)).tanh(), state, update)
        return self.head(state)


def _perceptron(size: int) -> Made:
    width = 4096 if size >= FULL else 64
    layers = [layer for _ in range(3) for layer in (nn.Linear(width, width), nn.LayerNorm(width), nn.GELU())]
    return nn.Sequential(*layers), (torch.randn(512 if size >= FULL else 8, width),)


def _images(size: int) -> Made:
    channels, side, batch = (64, 56, 32) if size >= FULL else (4, 6, 1)
    return nn.Sequential(*(Residual(channels) for _ in range(3))), (torch.randn(batch, channels, side, side),)


def _ranking(size: int) -> Made:
    return Ranking(), (torch.randint(0, 1000, (8192 if size >= FULL else 16, 8)),)


def _recurrent(size: int) -> Made:
    width, batch = (512, 128) if size >= FULL else (16, 4)
    return Recurrent(width), (torch.randn(8, batch, width),)


MODELS: dict[str, GpuProgram] = {
    "perceptron": GpuProgram(_perceptron, trains=True, products=True),
    "transformer": GpuProgram(lambda size: _transformer(size, nn.LayerNorm, gated=False), trains=True, products=True),
    "llama": GpuProgram(lambda size: _transformer(size, nn.RMSNorm, gated=True), trains=True, products=True),
    "images": GpuProgram(_images, trains=True, products=True),
    "ranking": GpuProgram(_ranking, trains=True),
    "recurrent": GpuProgram(_recurrent, trains=True),
}  # fmt: skip
