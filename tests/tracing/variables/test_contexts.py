"""Context managers that change no mode, decorated functions, and blocks of one manager."""

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
    """Before and after a break inside of the block, ``as target`` is the result that the manager was made with."""

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
    """A ``nullcontext`` from outside gives what it holds now, of which any kind is traced."""

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
    """A block of ``record_function`` is traced as if the block were not there."""

    def function(x):
        with torch.profiler.record_function("scaled"):
            y = x * 2
        return y + 1

    assert torch.equal(one_graph(function, torch.ones(2)), torch.full((2,), 3.0))


def test_managers_with_one_state_may_not_be_entered_twice_at_a_break():
    """Two blocks of one ``no_grad`` are refused at a break; two managers are not, nor are those without a state."""
    first, second, without_state = (
        grad_mode(torch.no_grad, False),
        grad_mode(torch.no_grad, False),
        NullContextVariable(ConstantVariable(None)),
    )
    expect_distinct([first, second, without_state, without_state])
    with pytest.raises(breaks.Unsupported, match="no_grad"):
        expect_distinct([first, second, first])


def test_profilers_are_managers_that_remember_nothing():
    """Another one of the same class is made for each call of a function that a profiler decorates."""
    profiler = ProfilerVariable(torch.profiler.record_function)
    other = profiler.renewed()
    assert isinstance(other, ProfilerVariable)
    assert other is not profiler
    assert other.python_type() is torch.profiler.record_function
