"""Tests for nbcompile.tracing.calls.annotations: annotations that a program sets on its callables."""

from __future__ import annotations

import pytest
import torch

import nbcompile


class Scaled:
    """A callable without a name, which no node can call."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


SCALED = Scaled(2.0)


@pytest.mark.parametrize("mark", [torch.compiler.allow_in_graph, nbcompile.allow_in_graph])
def test_an_allowed_object_without_a_name_is_traced(mark):
    """Such an object is traced in one graph, and guards check the attributes that it reads."""
    allowed = mark(SCALED)
    compiled = nbcompile.compile(lambda x: allowed(x) + 1, fullgraph=True)
    for factor in (2.0, 3.0):
        SCALED.factor = factor
        assert compiled(torch.ones(2)).tolist() == [factor + 1] * 2
