"""Tests for nbcompile.aot.returned_arguments: a returned argument is the same object, as in eager mode, and no copy."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import nbcompile


def _both_written(y):
    z = F.dropout(y, 0.5, False)
    z.mul_(3)
    y.view(-1)[0] = 7
    return z


PROGRAMS = {
    "dropout in eval mode": lambda x: F.dropout(x, 0.5, False),
    "dropout of nothing": lambda x: F.dropout(x, 0.0, True),
    "alpha dropout": lambda x: F.alpha_dropout(x, 0.5, False),
    "two dropouts": lambda x: F.dropout(F.dropout(x, 0.5, False), 0.2, False),
    "beside another result": lambda x: (F.dropout(x, 0.5, False), x * 2)[0],
    "written afterwards": lambda x: (F.dropout(x, 0.5, False), x.add_(1))[0],
    "of what is computed": lambda x: _both_written(x + 1),
    "a chain of them": lambda x: F.dropout(F.dropout(x, 0.5, False).contiguous(), 0.1, False).add_(1),
    "an output argument": lambda x: torch.add(F.dropout(x, 0.5, False), 1, out=x),
    "written through": lambda x: F.dropout(x, 0.5, False).mul_(3),
}


@pytest.mark.compiles
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_argument_that_is_returned_is_the_argument(name, backend):
    """A returned argument is the same object with the same value as in eager mode."""
    function = PROGRAMS[name]
    x, twin = torch.arange(1.0, 5.0), torch.arange(1.0, 5.0)
    expected, got = function(twin), nbcompile.compile(function, backend=backend)(x)
    assert (got is x) is (expected is twin)
    assert torch.equal(got, expected)
    assert torch.equal(x, twin)


@pytest.mark.compiles
def test_gradients_flow_through_what_is_returned():
    """Gradients flow through an input that is returned along with other results."""

    def function(x):
        return F.dropout(x, 0.5, False), (x * 3).sum()

    x = torch.arange(1.0, 5.0, requires_grad=True)
    same, total = nbcompile.compile(function)(x)
    assert same is x
    (same.sum() + total).backward()
    assert x.grad.tolist() == [4.0] * 4
