"""Graphs that are rejected, with the name of the node."""

from __future__ import annotations

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import nbcompile
from nbcompile.lowering import UnsupportedGraph, lower


def test_data_dependent_sizes_are_rejected_by_name():
    """A size that depends on data has no program; the caller runs the graph through ATen."""

    def f(x):
        return torch.nonzero(x)

    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    with FakeTensorMode(shape_env=ShapeEnv(allow_dynamic_output_shape_ops=True)) as mode:
        graph = make_fx(f)(mode.from_tensor(torch.randn(4)))
    with pytest.raises(UnsupportedGraph, match="depends on data"):
        lower(graph)


@pytest.mark.parametrize("dtype", [torch.qint8, torch.quint8, torch.qint32], ids=str)
def test_quantized_tensors_are_rejected(dtype):
    """Fake quantized tensors claim to be float32: the graph runs through ATen."""

    def f(x):
        return torch.quantize_per_tensor(x * 2, 0.1, 3, dtype)

    graph = make_fx(f, tracing_mode="fake")(torch.randn(4))
    with pytest.raises(UnsupportedGraph, match="quantized"):
        lower(graph)
    x = torch.randn(4)
    assert torch.equal(nbcompile.compile(f)(x), f(x))
