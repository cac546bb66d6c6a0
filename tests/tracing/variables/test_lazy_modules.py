"""Modules whose parameters are created at the first input."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import nbcompile
from nbcompile.tracing.variables.lazy_modules import is_unshaped

MADE = {
    "linear": (lambda: nn.LazyLinear(3), (4, 5)),
    "convolution": (lambda: nn.LazyConv2d(2, 3), (1, 4, 6, 6)),
    "batch norm": (lambda: nn.LazyBatchNorm1d(), (4, 5)),
    "in a sequence": (lambda: nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.LazyLinear(2)), (4, 5)),
}


@pytest.mark.parametrize("name", MADE)
def test_the_first_call_makes_the_parameters(name):
    """The parameters have eager mode's sizes and random values, and the module is an ordinary one afterwards."""
    make, size = MADE[name]
    x = torch.randn(size)
    torch.manual_seed(0)
    expected = make()(x)
    torch.manual_seed(0)
    module = make()
    assert any(map(is_unshaped, module.modules()))
    result = nbcompile.compile(module, backend="eager", fullgraph=True)(x)
    torch.testing.assert_close(result, expected)
    assert not any(map(is_unshaped, module.modules()))


def test_what_is_waiting():
    """Only a lazy module before its first input is unshaped."""
    assert is_unshaped(nn.LazyLinear(3)) and not is_unshaped(nn.Linear(2, 3)) and not is_unshaped(3)
