"""Mutations that do not change the version counter for autograd."""

from __future__ import annotations

import torch

import nbcompile
from tests.support.oracle import require_same_answer


def test_a_write_inside_leaves_the_version_and_one_outside_raises_it():
    """The version of a tensor afterwards equals eager mode's."""

    def program():
        x = torch.zeros(2)
        with torch.autograd._unsafe_preserve_version_counter(x):
            x.add_(1)
        inside = x._version
        x.add_(1)
        return inside, x._version, x.tolist()

    require_same_answer(program)


def test_the_tensor_of_the_caller_keeps_its_version():
    """An input that is mutated inside the block has new values and its old version."""

    def function(x):
        with torch.autograd._unsafe_preserve_version_counter(x):
            x.add_(1)
        return x * 2

    x = torch.zeros(2)
    before = x._version
    assert nbcompile.compile(function, backend="eager", fullgraph=True)(x).tolist() == [2.0, 2.0]
    assert (x.tolist(), x._version) == ([1.0, 1.0], before)
