"""Operators that look at values in eager mode, and whose ATen operators do not: the compiled graph checks them, too."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import nbcompile

NAN = float("nan")


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    ("value", "target"), [(2.0, 1.0), (-0.1, 0.0), (NAN, 0.0), (0.5, 2.0), (0.5, -1.0), (0.5, NAN)]
)
def test_probabilities_and_targets_are_from_0_to_1(value, target, reduction):
    """binary_cross_entropy of anything else is an error in both, also of one element among others."""
    inputs = torch.full((40,), 0.5), torch.full((40,), 0.5)
    inputs[0][7], inputs[1][7] = value, target

    def f(x, y):
        return F.binary_cross_entropy(x, y, reduction=reduction)

    for function in (f, nbcompile.compile(f)):
        with pytest.raises((RuntimeError, IndexError)):
            function(*inputs)


def test_the_check_changes_no_value_and_no_gradient():
    """Losses and gradients of probabilities, those at both ends and a negative zero included, are eager mode's."""
    values = torch.tensor([0.0, -0.0, 1.0, 0.25, 0.75, 0.5])
    targets, weight = torch.tensor([0.0, 1.0, 1.0, 0.0, 0.3, -0.0]), torch.rand(6)

    def f(x, y, w):
        return F.binary_cross_entropy(x, y, w, reduction="none")

    found = []
    for function in (f, nbcompile.compile(f)):
        x = values.clone().requires_grad_()
        loss = function(x, targets, weight)
        loss.sum().backward()
        found.append((loss.detach(), x.grad))
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("ids", [[0, 3], [-1, 0]])
def test_an_id_that_is_no_class_is_an_error(ids):
    """one_hot of an id that is too large, or negative."""

    def f(ids):
        return F.one_hot(ids, 3) * 2

    for function in (f, nbcompile.compile(f)):
        with pytest.raises((RuntimeError, IndexError)):
            function(torch.tensor(ids))
