"""The result of tracing one frame, as data."""

import builtins

import pytest
import torch

from nbcompile.capture.frame import Frame
from nbcompile.capture.recipe import AppendItems, GraphOutput
from nbcompile.capture.source import LocalSource
from nbcompile.capture.trace import BrokenJump, GraphBreak, Return, Trace
from nbcompile.options import Options
from nbcompile.tracing import tracer
from nbcompile.tracing.inputs.dynamism import Dynamism


def traced(function, **values) -> Trace:
    """The trace of one call."""
    frame = Frame(function.__code__, values, globals(), vars(builtins))
    return tracer.trace(frame, Options(), Dynamism(False))


def adds(x, y):
    return x + y


def branches(x):
    y = x + 1
    if y.sum() > 0:
        return y * 2
    return y


def appends(x, found):
    found.append(3)
    return x


def test_inputs_say_where_their_values_come_from():
    """Each input of the graph has a source, and the result is an output of the graph."""
    trace = traced(adds, x=torch.ones(2), y=torch.ones(2))
    assert [each.source for each in trace.graph.inputs] == [LocalSource("x"), LocalSource("y")]
    assert isinstance(trace.exit, Return)
    assert trace.exit.value == GraphOutput(0)


def test_a_frame_without_operators_has_no_graph():
    """The trace has a side effect and no graph, and the list of the call is unchanged."""
    found = []
    trace = traced(appends, x=torch.ones(2), found=found)
    assert trace.graph is None
    (mutation,) = trace.mutations
    assert type(mutation) is AppendItems
    assert found == []


def test_a_branch_on_a_tensor_resumes_at_two_points():
    """The graph ends with the condition; each of two resume points has its live variables."""
    trace = traced(branches, x=torch.ones(2))
    assert isinstance(trace.exit, GraphBreak)
    assert isinstance(trace.exit.action, BrokenJump)
    assert len(trace.exit.resume) == 2
    assert [[name for name, _ in point.live] for point in trace.exit.resume] == [["y"], ["y"]]
    assert len({point.offset for point in trace.exit.resume}) == 2


def test_a_trace_is_frozen():
    """A trace is immutable, because several stages share it."""
    trace = traced(adds, x=torch.ones(2), y=torch.ones(2))
    with pytest.raises(AttributeError):
        trace.graph = None
