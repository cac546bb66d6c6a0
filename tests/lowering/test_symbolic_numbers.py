"""Operators on symbolic integers, negated ones included, give eager's results.

In torch: test/inductor/test_torchinductor_dynamic_shapes.py. Read next: nbcompile/lowering/views.py
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import nbcompile


def changed(x: torch.Tensor, change: Callable[[torch.Tensor], object]) -> torch.Tensor:
    copy = x.clone()
    change(copy)
    return copy


CASES: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "the last": lambda x, b: x[..., -b:],
    "all but the last": lambda x, b: x[:, :-b],
    "a piece counted from the end": lambda x, b: x[-b - 1 : -1],
    "a piece between": lambda x, b: x[b:-b],
    "every so many": lambda x, b: x[::b],
    "beyond the end": lambda x, b: x[:, b * 10 :],
    "from before the beginning": lambda x, b: x[:, -b * 10 :],
    "item": lambda x, b: x[-b],
    "item2": lambda x, b: x[b, -b],
    "select": lambda x, b: x.select(1, -b),
    "narrow": lambda x, b: x.narrow(1, -b, 1),
    "narrow2": lambda x, b: x.narrow(1, b, b),
    "roll": lambda x, b: torch.roll(x, -b, 0),
    "roll2": lambda x, b: torch.roll(x, b),
    "diag": lambda x, b: x.diagonal(b),
    "diag2": lambda x, b: x.diagonal(-b) + 1,
    "tril": lambda x, b: x.tril(-b),
    "triu": lambda x, b: x.triu(b),
    "pad": lambda x, b: F.pad(x, (-b, b)),
    "pad2": lambda x, b: F.pad(x, (b, 0, 0, b), value=2.0),
    "arange": lambda x, b: torch.arange(-b, b) + x.sum(),
    "split": lambda x, b: x.split(b, 1)[-1] + 1,
    "split2": lambda x, b: x.split([b, 6 - b], 1)[1] + 1,
    "chunk": lambda x, b: x.chunk(b, 1)[-1] + 1,
    "repeat": lambda x, b: x.repeat(b, 1),
    "expand": lambda x, b: x[None].expand(b, *x.shape) + 1,
    "topk": lambda x, b: x.topk(b)[0],
    "unfold": lambda x, b: x.unfold(1, b, 1) + 1,
    "setitem": lambda x, b: changed(x, lambda y: y[:, -b:].fill_(0)),
    "setitem2": lambda x, b: changed(x, lambda y: y[-b].mul_(2)),
    "setitem3": lambda x, b: changed(x, lambda y: y.__setitem__((slice(None, -b), slice(b, None)), 7.0)),
    "view": lambda x, b: x.view(b, -1) + 1,
    "unflatten": lambda x, b: x.unflatten(1, (b, -1)) + 1,
    "cat": lambda x, b: torch.cat([x[:, :b], x[:, -b:]], 1),
    "stack": lambda x, b: torch.stack([x[b], x[-b]]),
    "flip": lambda x, b: x[-b:].flip(0),
    "as_strided": lambda x, b: x.as_strided((b, 2), (2, 1), b),
    "index": lambda x, b: x[torch.tensor([0, 1]) + b - 1],
    "gather": lambda x, b: x.gather(1, torch.zeros(6, 1, dtype=torch.long) + b),
    "pow": lambda x, b: x**b,
    "div": lambda x, b: x / b,
    "floordiv": lambda x, b: x // b,
    "rem": lambda x, b: x % b,
    "remneg": lambda x, b: x % (-b),
    "full": lambda x, b: torch.full((b, 2), -b) + x[0, 0],
    "eye": lambda x, b: torch.eye(b) + x[0, 0],
    "linspace": lambda x, b: torch.linspace(0, 1, b + 2) + x[0, 0],
    "cumsum": lambda x, b: x[:, -b:].cumsum(1),
    "mean": lambda x, b: x[-b:].mean(0),
    "softmax": lambda x, b: x[:, :-b].softmax(1),
    "interp": lambda x, b: F.interpolate(x[None, None], scale_factor=b),
    "pool": lambda x, b: F.avg_pool2d(x[None], b),
    "conv": lambda x, b: F.conv2d(x[None, None], torch.ones(1, 1, 2, 2), padding=b),
    "onehot": lambda x, b: F.one_hot(torch.arange(b), b + 1) * x[0, 0],
    "movedim": lambda x, b: x[None].movedim(0, -b % 2),
    "tensor_split": lambda x, b: x.tensor_split(b, 1)[-1] + 1,
    "tile": lambda x, b: x.tile(b),
    "rot": lambda x, b: torch.rot90(x, b),
    "bitshift": lambda x, b: x.long() << b,
    "clamp": lambda x, b: x.clamp(-b, b),
    "idiv": lambda x, b: x.long() // -b,
    "fmod": lambda x, b: torch.fmod(x, -b),
    "trilb": lambda x, b: torch.ones(b, b).tril() + x[:b, :b],
    "slicescat": lambda x, b: torch.slice_scatter(x, x[:, :b] * 2, 1, -b),
    "selscat": lambda x, b: torch.select_scatter(x, x[0] * 2, 0, -b),
    "masked": lambda x, b: x.masked_fill(x > b, -b),
    "where": lambda x, b: torch.where(x > b, b, -b),
    "scalar": lambda x, b: x.new_tensor(b) * x,
    "histc": lambda x, b: torch.histc(x, b + 1),
    "quant": lambda x, b: (x * b).round().long() % b,
    "bits": lambda x, b: x + (b & 6) + (b | 1) + (b ^ 3),
    "bits of a size": lambda x, b: x[: (b | 1)] + (x.shape[0] & b),
    "a product divides": lambda x, b: x * (x.numel() * b / (x.shape[0] * b) - 1.0),
    "a sum is multiplied": lambda x, b: x * ((x.shape[0] + b) * 0.5) + (x.shape[0] - b) ** 0.5,
    "a difference divides": lambda x, b: x / ((b * 7) / (x.shape[0] - b) / (b + 2.5)),
    "numbers are compared": lambda x, b: x * (b / 2 > (x.shape[0] - b) / 3),
    "channels are a product": lambda x, b: (
        F.batch_norm(x.reshape(1, -1, 2, 3), x.new_zeros(6), x.new_ones(6), training=True) * b
    ),
    "a power of two": lambda x, b: x + 2**b,
    "shifted both ways": lambda x, b: x + (b << 2) + (64 >> b),
    "as many as bits": lambda x, b: torch.zeros(b << 1) + x[0, 0],
}


@pytest.mark.parametrize("name", CASES)
def test_a_number_that_is_a_symbol(name: str) -> None:
    """Results, and classes of errors, equal eager's for several values of the number."""
    compiled = nbcompile.compile(CASES[name], dynamic=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", nbcompile.exc.GeneratedCodeWarning)
        for b in (2, 1, 3, 2):
            x = torch.arange(36.0).reshape(6, 6) - 7
            expected, result = tried(CASES[name], x, b), tried(compiled, x, b)
            if isinstance(expected, torch.Tensor):
                torch.testing.assert_close(result, expected)
            else:
                assert type(result) is type(expected)


def tried(function: Callable[..., torch.Tensor], *arguments: object) -> torch.Tensor | Exception:
    """A result or an exception."""
    try:
        return function(*arguments)
    except Exception as error:  # noqa: BLE001  is compared
        return error


def test_a_slice_whose_end_is_not_known():
    """A slice end of zero counts from the front, a negative one from the end: no code serves both."""

    def f(x: torch.Tensor, b: int) -> torch.Tensor:
        return torch.slice_scatter(x, x[:, :b] * 2, 1, -b)

    compiled = nbcompile.compile(f, dynamic=True)
    x = torch.arange(36.0).reshape(6, 6)
    for b in (2, 3, 1, 6, 2):
        torch.testing.assert_close(compiled(x, b), f(x, b))


def test_batch_norm_whose_channels_are_a_product():
    """The statistics of an instance norm have a factor ``n / (n - 1)``; its gradient has a quotient of symbols."""
    ours, theirs = (torch.nn.InstanceNorm2d(6, track_running_stats=True) for _ in range(2))
    compiled = nbcompile.compile(ours)
    for count in (4, 6, 3):
        x = torch.arange(count * 96.0).reshape(count, 6, 4, 4).sin()
        x_ours, x_theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        result, expected = compiled(x_ours), theirs(x_theirs)
        result.pow(3).sum().backward()
        expected.pow(3).sum().backward()
        torch.testing.assert_close(result, expected)
        torch.testing.assert_close(x_ours.grad, x_theirs.grad, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(ours.running_var, theirs.running_var)
