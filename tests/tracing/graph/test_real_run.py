"""Trial runs on small real tensors for operators that fake tensors reject."""

from __future__ import annotations

import pytest
import torch

from nbcompile.tracing.graph.real_run import LARGE, runs_on_data

x = torch.ones(3)
MASK = torch.tensor([1, 0, 1], dtype=torch.uint8)
CALLS = {
    "an index of uint8": (torch.Tensor.__getitem__, (x, MASK), True),
    "a method": ("view", (x, 3), True),
    "a view of another size": ("view", (x, 4), False),
    "a leaf is written": ("add_", (torch.ones(3, requires_grad=True), 1), False),
    "a conjugated tensor": (torch.view_as_real, (torch.ones(3, dtype=torch.complex64).conj(),), False),
    "too large": (torch.zeros, (LARGE + 1,), False),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_runs_on_zeros(name):
    """A trial run uses zeros with the same sizes, strides and ``requires_grad``."""
    target, arguments, runs = CALLS[name]
    assert runs_on_data(target, arguments, {}) == runs


def test_code_of_others_is_not_tried():
    """A user's operator and a collective do not run while a graph is traced."""
    ran = []

    def of_the_user(x):
        ran.append(x)

    x = torch.ones(3)
    assert not runs_on_data(of_the_user, (x,), {})
    of_the_user.__module__ = "torch.distributed.distributed_c10d"
    assert not runs_on_data(of_the_user, (x,), {})
    assert not ran
    assert runs_on_data(torch.add, (x, 1), {})
