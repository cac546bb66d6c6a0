"""Context managers that change no mode, decorated functions, and several blocks with one manager."""

from __future__ import annotations

import contextlib

import pytest
import torch

from nbcompile.tracing import breaks
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.contexts import NullContextVariable, ProfilerVariable, expect_distinct
from nbcompile.tracing.variables.mode_contexts import grad_mode
from tests.support.oracle import disagreement, one_graph

graph_break = torch._dynamo.graph_break


def test_the_result_of_a_nullcontext_is_kept_over_a_break():
    """``as target`` is the manager's result before and after a graph break inside the block."""

    def function(x):
        manager = contextlib.nullcontext(x * 3)
        with manager as target:
            y = target + 1
            graph_break()
            z = target + 2
        return y, z, manager.enter_result

    def scenario(compiled):
        yield compiled(function)(torch.ones(2))

    assert not disagreement(scenario)


@pytest.mark.parametrize(
    "results", [(3, 4), ([1], [2, 3]), (torch.ones(2), torch.zeros(2))], ids=["int", "list", "tensor"]
)
def test_the_result_of_an_outer_nullcontext_is_read_at_each_call(results):
    """A ``nullcontext`` from outside gives its current result, of any kind."""

    def scenario(compiled):
        manager = contextlib.nullcontext(results[0])

        def read(x):
            with manager as target:
                return x + 1, target if isinstance(target, int) else [item + x for item in target]

        function = compiled(read)
        yield function(torch.ones(2))
        manager.enter_result = results[1]
        yield function(torch.ones(2))

    assert not disagreement(scenario)


def test_a_range_of_the_profiler_does_not_divide_the_graph():
    """A block of ``record_function`` does not break the graph."""

    def function(x):
        with torch.profiler.record_function("scaled"):
            y = x * 2
        return y + 1

    assert torch.equal(one_graph(function, torch.ones(2)), torch.full((2,), 3.0))


def test_managers_with_one_state_may_not_be_entered_twice_at_a_break():
    """Two blocks with one ``no_grad`` cannot resume after a break; two managers can, and so can stateless ones."""
    first, second, without_state = (
        grad_mode(torch.no_grad, False),
        grad_mode(torch.no_grad, False),
        NullContextVariable(ConstantVariable(None)),
    )
    expect_distinct([first, second, without_state, without_state])
    with pytest.raises(breaks.Unsupported, match="no_grad"):
        expect_distinct([first, second, first])


def test_profilers_are_managers_that_remember_nothing():
    """Each call of a function that a profiler decorates creates another profiler of the same class."""
    profiler = ProfilerVariable(torch.profiler.record_function)
    other = profiler.renewed()
    assert isinstance(other, ProfilerVariable)
    assert other is not profiler
    assert other.python_type() is torch.profiler.record_function
