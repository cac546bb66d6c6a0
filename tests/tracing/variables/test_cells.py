"""Cells that several functions share while they are traced."""

from __future__ import annotations

import torch

import nbcompile


def test_closures_share_a_cell():
    """A function writes to a cell, and the other function and the caller read the new value."""

    def counts(x):
        count = 0

        def add():
            nonlocal count
            count += 1

        add()
        add()
        return x * count, lambda: count

    x = torch.randn(3)
    result, read = nbcompile.compile(counts, backend="eager", fullgraph=True)(x)
    assert result.equal(x * 2)
    assert read() == 2
