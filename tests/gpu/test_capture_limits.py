"""The reason why a graph cannot be recorded, from the graph alone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from nbcompile.gpu import capture_limits
from nbcompile.ir.emitted import LaunchPlan

EMITTED = SimpleNamespace(plan=LaunchPlan((), 0, (), ()), kernels=(), externs=(), no_plan="")


def reason(function, *shapes, emitted=EMITTED) -> str:
    """The reason for a function of fake tensors on cuda:0."""
    with FakeTensorMode(shape_env=ShapeEnv()):
        inputs = [torch.empty(shape, device="cuda") for shape in shapes]
        graph = make_fx(function)(*inputs)
    return capture_limits.obstacle(graph, emitted)


def test_a_graph_of_one_gpu_can_be_recorded():
    """A graph with sums, products and copies on one GPU can be recorded."""
    assert reason(lambda x, y: torch.relu(x @ y).sum(0).clone(), (4, 4), (4, 4)) == ""


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x.cpu() + 1, "skipping cudagraphs due to cpu device (_to_copy)"),
        (lambda x: x.to("cuda:1"), "skipping cudagraphs due to multiple devices: device(type='cuda', index=0), "),
        (
            lambda x: x.index_put((x > 0,), x.sum()),
            "skipping cudagraphs due to incompatible op aten.index_put.default",
        ),
    ],
)
def test_the_words_are_torchs(function, expected):
    """The reason has torch's text, with the operator or node."""
    assert reason(function, (4, 4)).startswith(expected)


def test_a_graph_without_a_plan_needs_python():
    """A graph without a plan needs Python, so it cannot be recorded."""
    emitted = SimpleNamespace(plan=None, kernels=(), externs=(), no_plan="it calls a part of the graph")
    assert "a graph that needs Python (it calls a part of the graph)" in reason(torch.sin, (4,), emitted=emitted)
