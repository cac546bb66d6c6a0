"""Graphs that run as captured, always or for overlapping inputs, are loaded like any other."""

from __future__ import annotations

import pytest
import torch
import torch.fx
from torch import nn

from nbcompile.capture.complex_literals import exact
from nbcompile.capture.literals import NotStorable, Unreadable
from nbcompile.fast.disk_cache import captured
from nbcompile.fast.disk_cache.kernel_table import KernelTable

WRITES = """
import torch
def among_others(x, y):
    x.add_(1)
    return (x * 2).sum(), y + 1

def of_any_size(x, y):
    x.add_(1)
    return x * x.shape[0], y + 1

net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
"""


@pytest.mark.parametrize("name", ["among_others", "of_any_size"])
def test_inputs_that_may_overlap_are_watched_by_a_later_process(process, name):
    """Separate inputs use generated code, overlapping ones the captured graph, with eager mode's results."""
    for attempt in range(2):
        run = process(WRITES)
        for start in (4, 1, 4):
            base, other = torch.arange(8.0), torch.arange(8.0)
            found = run.call(name, base[:3], base[start : start + 3])
            wanted = getattr(run.module, name)(other[:3], other[start : start + 3])
            torch.testing.assert_close((found, base), (wanted, other))
        assert set(run.loaded) == {bool(attempt)}


def test_sizes_that_vary_are_watched(process):
    """The extent of an input in memory is checked at each call if it is symbolic."""
    for attempt in range(2):
        run = process(WRITES)
        for size in (3, 4, 5, 7):
            base, other = torch.arange(12.0), torch.arange(12.0)
            found = run.call("of_any_size", base[:size], base[5 : size + 5])
            wanted = run.module.of_any_size(other[:size], other[5 : size + 5])
            torch.testing.assert_close((found, base), (wanted, other))
        assert set(run.loaded) == {bool(attempt)}


def test_overlapping_from_the_first_call(process):
    """Only the captured graph exists, in this process and in a later one."""
    for attempt in range(2):
        run = process(WRITES)
        base, other = torch.arange(8.0), torch.arange(8.0)
        found = run.call("among_others", base[:4], base[2:6])
        torch.testing.assert_close((found, base), (run.module.among_others(other[:4], other[2:6]), other))
        assert run.loaded == [bool(attempt)]


def test_statistics_of_training_are_written_by_a_loaded_graph(process):
    """A graph with gradients that mutates buffers has eager mode's outputs, gradients and statistics."""
    torch.manual_seed(0)
    x = torch.randn(5, 4)
    torch.manual_seed(0)
    first = process(WRITES)
    first.call("net", x)
    torch.manual_seed(0)
    later = process(WRITES)
    y = later.call("net", x)
    y.pow(3).sum().backward()
    assert later.loaded == [True]
    torch.manual_seed(0)
    eager = process(WRITES).module.net
    wanted = eager(x)
    wanted.pow(3).sum().backward()
    ours = later.module.net
    torch.testing.assert_close(y, wanted)
    torch.testing.assert_close(
        [p.grad for p in ours.parameters()], [p.grad for p in eager.parameters()], atol=1e-4, rtol=1e-4
    )
    torch.testing.assert_close(list(ours.buffers()), list(eager.buffers()))
    assert [b._version for b in ours.buffers()] == [b._version for b in first.module.net.buffers()]


def graph_of(function) -> torch.fx.GraphModule:
    return torch.fx.symbolic_trace(function)


def test_every_part_of_a_node_is_written_down():
    """Lists, slices, keywords, dtypes, functions of C, of Python and of ``operator``, and ATen operators are stored."""

    def f(x, y):
        z = torch.cat([x[1:, None], y], dim=-1).to(torch.float64)
        z = nn.functional.gelu(z, approximate="tanh") + torch.ops.aten.add.Tensor(z, 1.5, alpha=2)
        turned = x * exact(complex(-0.0, 1.0))
        return torch.clamp(z, min=None, max=3), z.reshape((-1,)).sum(dtype=torch.float32), turned

    x, y = torch.randn(3), torch.randn(2, 4)
    again = captured.read(captured.write(graph_of(f)), KernelTable())
    found, wanted = again(x, y), f(x, y)
    torch.testing.assert_close(found, wanted)
    assert repr(found[2].tolist()) == repr(wanted[2].tolist())


def test_a_function_of_this_process_is_not_written_down():
    """A lambda has no name, so the graph cannot be stored."""
    graph = torch.fx.Graph()
    graph.output((graph.call_function(lambda: 1),))
    with pytest.raises(NotStorable):
        captured.write(torch.fx.GraphModule({}, graph))


def test_a_function_that_is_another_one_now_is_noticed(monkeypatch):
    """A replaced function is detected when the entry is read, not when its graph runs."""
    told = captured.write(graph_of(lambda x: nn.functional.gelu(x)))
    monkeypatch.setattr(torch._C._nn, "gelu", lambda x: x)
    with pytest.raises(Unreadable):
        captured.read(told, KernelTable())
