"""Attempts of a trace: their end, and the record of a failed one."""

from __future__ import annotations

import builtins
import gc
import weakref

import pytest
import torch

from nbcompile import config
from nbcompile.capture.frame import Frame
from nbcompile.capture.trace import GraphBreak, Return
from nbcompile.options import Options
from nbcompile.tracing import breaks, tracer
from nbcompile.tracing.inputs.dynamism import Dynamism


def traced(function, attempt=None, options=None, **values):
    """The trace of one call."""
    frame = Frame(function.__code__, values, function.__globals__, vars(builtins))
    return tracer.trace(frame, options or Options(), Dynamism(False), unfinished=attempt)


def test_a_frame_without_operators_is_skipped():
    """An empty frame is not compiled, unless ``allow_empty_graphs`` is set."""

    def f(x):
        return 3

    with pytest.raises(breaks.SkipFrame, match="no ops"):
        traced(f, x=torch.ones(2))
    with config.patch(allow_empty_graphs=True):
        assert isinstance(traced(f, x=torch.ones(2)).exit, Return)


def test_an_attempt_that_breaks_is_followed_by_one_that_ends_there():
    """The second attempt runs up to the break, so nothing of the first must be undone."""

    def f(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    attempt = tracer.FailedAttempt()
    trace = traced(f, attempt, x=torch.ones(2))
    assert isinstance(trace.exit, GraphBreak) and trace.exit.report.kind == breaks.GRAPH_BREAK.id
    operators = [node.target for node in trace.graph.module.graph.nodes if node.op == "call_function"]
    assert len(operators) == 1 and not trace.exit.differentiates


def test_autograd_of_a_graphs_results_is_noted():
    """Such a graph cannot be one autograd function, which has no derivative of one result by another."""

    def f(x):
        y = x * 2
        z = y * 3
        return torch.autograd.grad(z.sum(), y)

    with config.patch(trace_autograd_ops=False):
        trace = traced(f, x=torch.ones(2, requires_grad=True))
    assert isinstance(trace.exit, GraphBreak) and trace.exit.differentiates


def test_of_failed_attempts_the_one_that_came_furthest_is_kept():
    """The failed attempt has a graph, which views of the failure show."""

    def f(x):
        return x.view(7)

    attempt = tracer.FailedAttempt()
    with pytest.raises(Exception, match="shape"):
        traced(f, attempt, x=torch.ones(2))
    assert attempt.graph is not None and attempt.operators() >= 0


def test_the_arguments_of_a_call_live_no_longer_than_the_trace():
    """``release`` breaks the reference cycles of the trace."""

    def f(x):
        return x.sin()

    x = torch.ones(2)
    gone = weakref.ref(x)
    trace = traced(f, x=x)
    trace.guards()
    trace.release()
    del x, trace
    gc.collect()
    assert gone() is None
