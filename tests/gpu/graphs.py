"""The 46 graphs that code for a GPU is judged by: of each kind of operator some, small enough to be simulated.

    GRAPHS["softmax_1k"].make()          its inputs
    GRAPHS["softmax_1k"].function        lambda x: x.softmax(-1)

``python -m tests.gpu.corpus --write`` compiles and simulates them and writes the table of docs/design/gpu_corpus.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import randint, randn


@dataclass(frozen=True, slots=True)
class CorpusGraph:
    """A program and its inputs."""

    function: Callable[..., Any]
    make: Callable[[], tuple[Any, ...]]
    dynamic: bool = False
    is_meta: bool = False
    """True if it is too large to run: its inputs have no memory."""
    is_memory_bound: bool = False
    """True for the kinds of kernel whose time is that of their bytes: pointwise, transposes, sums, rows."""
    options: dict[str, Any] = field(default_factory=dict)


def half(*shape: int) -> torch.Tensor:
    """Normal numbers in bfloat16."""
    return randn(*shape).to(torch.bfloat16)


def leaf(*shape: int) -> torch.Tensor:
    """A parameter that requires grad."""
    return randn(*shape).requires_grad_()


def chain(x, y):
    return torch.sin(x) * y + torch.exp(-x.abs()) - y.sigmoid()


def rms_norm(x, w):
    v = x.float()
    return (v * torch.rsqrt(v.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w


def attention(q, k, v):
    scores = (q @ k.transpose(-1, -2)) * 32**-0.5
    earlier = torch.ones(64, 64, dtype=torch.bool, device=q.device).tril()
    return torch.softmax(scores.masked_fill(~earlier, float("-inf")), -1) @ v


def adam(*tensors):
    parameters, gradients, first, second = (list(tensors[at::4]) for at in range(4))
    first = torch._foreach_lerp(first, gradients, 0.1)
    second = torch._foreach_addcmul(torch._foreach_mul(second, 0.999), gradients, gradients, 0.001)
    divisor = torch._foreach_add(torch._foreach_sqrt(second), 1e-8)
    return [*torch._foreach_addcdiv(parameters, first, divisor, -1e-3), *first, *second]


def adam_inputs():
    shapes = (64, 64), (300,), (7, 5, 3)
    return tuple(tensor for shape in shapes for tensor in (*(randn(shape) for _ in range(3)), randn(shape).abs()))


def quantise(x):
    scale = x.abs().amax(-1, keepdim=True) / 127
    return (x / scale).round().clamp(-128, 127).to(torch.int8), scale


def rotary(q, c, s):
    turned = torch.cat([-q[..., 16:], q[..., :16]], -1)
    return q * c + turned * s


def integers(a, b):
    return torch.where(a > b, a // (b + 1), a % (b + 1)) + (a << 2)


def convolved(x, w, scale, shift, mean, var):
    return F.batch_norm(F.conv2d(x, w, padding=1), mean, var, scale, shift, training=False).relu()


def batch_norm(x, w, b, mean, var):
    return F.batch_norm(x, mean.clone(), var.clone(), w, b, training=True).relu()


GRAPHS = {
    "pointwise_chain": CorpusGraph(chain, lambda: (randn(4, 4096), randn(4, 4096)), is_memory_bound=True),
    "broadcast": CorpusGraph(lambda a, b, c: (a + b) * c, lambda: (randn(64, 1, 33), randn(1, 17, 33), randn(33)),
                             is_memory_bound=True),
    "softmax_1k": CorpusGraph(lambda x: x.softmax(-1), lambda: (randn(16, 1024),), is_memory_bound=True),
    "softmax_50k": CorpusGraph(lambda x: x.softmax(-1), lambda: (randn(4, 50257),)),
    "layer_norm": CorpusGraph(lambda x, w, b: F.layer_norm(x, (768,), w, b),
                              lambda: (randn(16, 768), randn(768), randn(768)), is_memory_bound=True),
    "rms_norm_bf16": CorpusGraph(rms_norm, lambda: (half(16, 1024), half(1024)), is_memory_bound=True),
    "cross_entropy_50k": CorpusGraph(F.cross_entropy, lambda: (randn(8, 50257), randint(0, 50257, (8,)))),
    "cross_entropy_training": CorpusGraph(F.cross_entropy, lambda: (leaf(8, 1000), randint(0, 1000, (8,)))),
    "cumsum": CorpusGraph(lambda x: x.cumsum(-1), lambda: (randn(8, 3000),)),
    "argmax": CorpusGraph(lambda x: (x.argmax(-1), x.argmax()), lambda: (randn(8, 3000),)),
    "scatter_add": CorpusGraph(lambda x, i, v: x.scatter_add(1, i, v),
                               lambda: (randn(16, 64), randint(0, 64, (16, 64)), randn(16, 64))),
    "embedding": CorpusGraph(lambda w, i: F.embedding(i, w) * 8.0, lambda: (randn(1000, 64), randint(0, 1000, (8, 16)))),
    "embedding_training": CorpusGraph(lambda w, i: (F.embedding(i, w) ** 2).sum(),
                                      lambda: (leaf(1000, 64), randint(0, 1000, (8, 16)))),
    "dropout": CorpusGraph(lambda x: F.dropout(x, 0.2, training=True) + 1, lambda: (randn(64, 256),),
                           options={"generate_random": True}),
    "transpose_add": CorpusGraph(lambda a, b: (a.t() + b).contiguous(), lambda: (randn(512, 384), randn(384, 512)),
                                 is_memory_bound=True),
    "permute": CorpusGraph(lambda x: x.permute(0, 2, 3, 1).contiguous() * 2, lambda: (randn(8, 32, 16, 24),),
                           is_memory_bound=True),
    "gather": CorpusGraph(lambda x, i: x.gather(1, i).relu(), lambda: (randn(32, 100), randint(0, 100, (32, 10)))),
    "upsample_bilinear": CorpusGraph(
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False), lambda: (randn(2, 3, 16, 16),)),
    "max_pool": CorpusGraph(lambda x: F.max_pool2d(x, 3, 2, 1), lambda: (randn(2, 8, 32, 32),)),
    "avg_pool": CorpusGraph(lambda x: F.avg_pool2d(x, 2), lambda: (randn(2, 8, 32, 32),)),
    "group_norm_silu": CorpusGraph(lambda x, w, b: F.silu(F.group_norm(x, 8, w, b)),
                                   lambda: (randn(2, 32, 16, 16), randn(32), randn(32))),
    "batch_norm_training": CorpusGraph(
        batch_norm, lambda: (randn(8, 16, 14, 14), randn(16), randn(16), torch.zeros(16), torch.ones(16))),
    "attention_by_hand": CorpusGraph(attention, lambda: tuple(randn(2, 4, 64, 32) for _ in range(3))),
    "linear_gelu": CorpusGraph(lambda x, w, b: F.gelu(F.linear(x, w, b)),
                               lambda: (randn(128, 256), randn(512, 256), randn(512))),
    "conv_bn_relu": CorpusGraph(convolved, lambda: (randn(2, 3, 32, 32), randn(16, 3, 3, 3), randn(16), randn(16),
                                                    torch.zeros(16), torch.ones(16))),
    "adam_foreach": CorpusGraph(adam, adam_inputs, is_memory_bound=True),
    "bf16_chain": CorpusGraph(lambda x, y: F.silu(x) * y, lambda: (half(64, 512), half(64, 512)), is_memory_bound=True),
    "fp16_sums": CorpusGraph(lambda x: (x.sum(-1), x.mean(0)), lambda: (randn(64, 2000).half(),)),
    "int8_dequantise": CorpusGraph(lambda q, s: q.float() * s,
                                   lambda: (randint(-128, 127, (64, 256), dtype=torch.int8), randn(64, 1)),
                                   is_memory_bound=True),
    "int8_quantise": CorpusGraph(quantise, lambda: (randn(64, 256),), is_memory_bound=True),
    "fp8_cast": CorpusGraph(lambda x: x.to(torch.float8_e4m3fn).float() * 2, lambda: (randn(64, 256),)),
    "complex_mul": CorpusGraph(lambda x, y: x * y, lambda: tuple(randn(64, 64, dtype=torch.complex64) for _ in range(2))),
    "softmax_dynamic": CorpusGraph(lambda x: torch.softmax(x * 2, -1), lambda: (randn(16, 1000),), dynamic=True),
    "sum_all_4M": CorpusGraph(lambda x: x.sum(), lambda: (randn(1 << 22),), is_memory_bound=True),
    "sum_of_columns_tall": CorpusGraph(lambda x: x.sum(0), lambda: (randn(65536, 32),), is_memory_bound=True),
    "var_mean": CorpusGraph(lambda x: torch.var_mean(x, -1), lambda: (randn(16, 5000),), is_memory_bound=True),
    "sort": CorpusGraph(lambda x: x.sort(-1), lambda: (randn(16, 100),)),
    "topk": CorpusGraph(lambda x: x.topk(5), lambda: (randn(16, 100),)),
    "cat_slice_pad": CorpusGraph(lambda x, y: F.pad(torch.cat([x, y], 1)[:, ::2], (1, 3)) + 1,
                                 lambda: (randn(16, 100), randn(16, 60))),
    "layer_norm_training": CorpusGraph(lambda x, w, b: (F.layer_norm(x, (768,), w, b) ** 2).sum(),
                                       lambda: (leaf(64, 768), leaf(768), leaf(768))),
    "rotary": CorpusGraph(rotary, lambda: (randn(2, 4, 64, 32), randn(64, 32), randn(64, 32))),
    "var_mean_channels": CorpusGraph(lambda x: torch.var_mean(x, (0, 2, 3)), lambda: (randn(16, 64, 28, 28),)),
    "integers": CorpusGraph(integers, lambda: (randint(0, 100, (64, 100)), randint(0, 9, (64, 100)))),
    "clamp_where_bool": CorpusGraph(lambda x, y: torch.where((x > 0) & (y < 1), x.clamp(max=1), y),
                                    lambda: (randn(64, 500), randn(64, 500)), is_memory_bound=True),
    "huge_elements": CorpusGraph(lambda x: x * 2 + 1, lambda: (torch.empty(3_000_000_000, device="meta"),), is_meta=True),
    "huge_rows": CorpusGraph(lambda x: x.softmax(-1), lambda: (torch.empty(70_000, 50_257, device="meta"),), is_meta=True),
}  # fmt: skip
"""By name. Forward and backward graphs of one that has parameters are judged together."""
