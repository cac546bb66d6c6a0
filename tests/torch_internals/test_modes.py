"""Modes of a thread, as they were."""

from __future__ import annotations

import gc

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import nbcompile
from nbcompile.torch_internals import modes


class Mode(TorchDispatchMode):
    """Does nothing."""

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        return function(*arguments, **(keywords or {}))


def test_whatever_an_interrupt_left_is_put_back():
    """Grad mode, dispatch modes, and the collector that the tracer pauses."""
    before = modes.modes()
    left = Mode()
    left.__enter__()
    torch._C._set_grad_enabled(False)
    gc.disable()
    modes.restore_modes(before)
    assert torch.is_grad_enabled() and gc.isenabled()
    assert torch._C._len_torch_dispatch_stack() == len(before.dispatch)


def test_modes_that_were_there_stay():
    """By identity: another object of the same class is another mode."""
    with Mode() as outer:
        before = modes.modes()
        torch._C._pop_torch_dispatch_stack(None)
        torch._C._push_on_torch_dispatch_stack(Mode())
        modes.restore_modes(before)
        assert modes.modes().dispatch[-1] is outer


def graph_that_raises():
    """A captured graph that switches gradients off, fails, and would switch them on again."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    y = graph.call_method("view", (x, 7))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    graph.output(y)
    return torch.fx.GraphModule({}, graph)


def test_a_graph_that_raises_between_two_changes_restores_the_mode():
    """Its second node does not run."""
    with pytest.raises(RuntimeError):
        modes.forward_of(graph_that_raises())(torch.ones(2))
    assert torch.is_grad_enabled()


def test_a_graph_that_changes_no_mode_has_no_wrapper():
    """Most graphs: their own function is what runs."""
    module = torch.fx.symbolic_trace(lambda x: x + 1)
    assert modes.forward_of(module) == module.forward


@pytest.mark.parametrize("before", [False, True])
def test_a_block_keeps_the_grad_mode_also_if_it_raises(before):
    """AOTAutograd runs graphs that leave another mode."""
    with torch.set_grad_enabled(before):
        with pytest.raises(ValueError, match="in the block"), modes.kept_grad_mode():
            torch._C._set_grad_enabled(not before)
            raise ValueError("in the block")
        assert torch.is_grad_enabled() is before


@torch.inference_mode()
def row_written(x):
    counts = torch.zeros(2, 3)
    counts[0] = x[0, :3]
    return counts


@torch.inference_mode()
def slice_written(x):
    y = x * 2
    y[:, 1:].add_(1)
    return y + 1


@torch.inference_mode()
def operator_in_python(x):
    counts = torch.zeros(2, 3)
    counts[0].copy_(x[0, :3])
    return torch.histc(counts, bins=3), counts


def row_written_under_autocast(x):
    with torch.autocast("cpu"):
        counts = torch.zeros(2, 3)
        counts[0] = (x[:, :3] @ x[:, :3].t())[0, :1]
        return counts


def both_modes(x):
    with torch.autocast("cpu"), torch.inference_mode():
        counts = torch.zeros(2, 3)
        counts[0] = x[0, :3]
        return counts @ counts.t()


def row_written_with_gradient(x):
    y = x * 2
    with torch.inference_mode():
        counts = torch.zeros(2, 3)
        counts[0] = x[0, :3]
    return y.sum()


@pytest.mark.parametrize("backend", ["inductor", "aot_eager"])
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("function", [
    row_written, slice_written, operator_in_python, row_written_under_autocast, both_modes, row_written_with_gradient,
])  # fmt: skip
def test_an_abandoned_trace_leaves_the_modes_of_its_graph(function, backend, requires_grad):
    """A graph that a tracer abandons between the nodes of a mode leaves no dispatch key, and no autocast, behind."""

    def state():
        sets = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
        return [keys.raw_repr() for keys in sets], torch.is_autocast_enabled("cpu"), torch.is_inference_mode_enabled()

    x = torch.arange(8.0).reshape(2, 4).requires_grad_(requires_grad)
    before, expected = state(), function(x)
    compiled = nbcompile.compile(function, backend=backend)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), expected)
        assert state() == before
    assert torch.randn(2).shape == (2,)
