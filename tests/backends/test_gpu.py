"""The choice of a GPU target, on machines without a GPU, too."""

from __future__ import annotations

import pytest
import torch

from nbcompile.backends.gpu import is_on_gpu, obstacle_to
from nbcompile.gpu.chip import CHIPS


def graph_with(value):
    """A graph module with one input of this value."""
    graph = torch.fx.Graph()
    node = graph.placeholder("x")
    node.meta["val"] = value
    graph.output(node)
    return torch.fx.GraphModule({}, graph)


@pytest.mark.parametrize(("value", "expected"), [(torch.empty(2, device="meta"), False), (3, False), (None, False)])
def test_a_graph_without_cuda_tensors_is_on_no_gpu(value, expected):
    """Sizes and tensors on other devices do not choose a GPU."""
    assert is_on_gpu(graph_with(value)) == expected


def test_one_cuda_tensor_is_enough():
    """One CUDA tensor chooses the GPU; a fake tensor has the device without a GPU."""
    with torch._subclasses.FakeTensorMode():
        assert is_on_gpu(graph_with(torch.empty(2, device="cuda")))


def test_no_target_has_no_obstacle():
    """Without a target there is no obstacle, and Triton is not imported."""
    assert obstacle_to("") == ""


def test_an_unknown_target_is_named_with_the_known_ones():
    """The error for an unknown target lists all known targets."""
    assert all(name in obstacle_to("sm_1") for name in ("sm_1", *CHIPS))
