"""``torch.compile(backend="nbcompile")``: the real Dynamo captures, our code generator makes the kernels.

    f(10 columns), f(100 columns), f(7 columns)     one graph with a symbolic size from the second call on

In torch: test/dynamo/test_backends.py. Read next: tests/backends/test_builtin.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

LAYER = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))


def after_a_break(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    torch._dynamo.graph_break()
    return y * y.shape[0] + torch.ones(2 * y.shape[0], 1).sum()


def mutated(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.mul_(2)
    return y.t().contiguous()


PROGRAMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "pointwise": lambda x: (x * 2 + 1).relu().sum(-1),
    "a size as a number": lambda x: x * x.shape[0] + x.numel() / 3.0,
    "sizes that are expressions": lambda x: torch.cat([x, x]).view(-1, 2, 4).sum(1),
    "a module": lambda x: LAYER(x),
    "after a break": after_a_break,
    "written": mutated,
}


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_that_differ_from_call_to_call(name: str, dynamic: bool | None) -> None:
    """Each size gives eager's result, with gradients if the input requires grad."""
    torch._dynamo.reset()
    f = PROGRAMS[name]
    g: Any = torch.compile(f, backend="nbcompile", dynamic=dynamic)
    for rows in (3, 10, 7, 5):
        for wants_gradient in (False, True):
            x = torch.randn(rows, 4, requires_grad=wants_gradient)
            expected, found = f(x), g(x)
            torch.testing.assert_close(found, expected)
            if wants_gradient:
                wanted = torch.autograd.grad(expected.sum(), x)
                torch.testing.assert_close(torch.autograd.grad(found.sum(), x), wanted)


def test_a_marked_size_and_a_number() -> None:
    """``mark_dynamic``, and an int and a float that become symbols, give eager's results."""
    torch._dynamo.reset()
    g: Any = torch.compile(lambda x, n, s: (x * n + s).sum(0), backend="nbcompile")
    for rows, number, scale in ((3, 2, 0.5), (10, 7, 1.5), (7, 9, 2.5)):
        x = torch.randn(rows, 4)
        torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(g(x, number, scale), (x * number + scale).sum(0))
