"""Tests for nbcompile.aot.eager_fallback: graphs that AOTAutograd would miscompile run in eager mode, with a reason."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.fx

import nbcompile
from nbcompile.aot.eager_fallback import AS_STRIDED_WRITE_REASON, NeedsEagerFallback, check_no_as_strided_write


def graph_of(function):
    return torch.fx.symbolic_trace(function).graph


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.add_(1).as_strided((2,), (1,)),
        lambda x: (torch.as_strided(x, (2,), (1,)), x.mul_(2)),
        lambda x: (x.as_strided((2,), (1,)), torch.add(x, 1, out=x)),
    ],
    ids=["a method", "a function", "an output argument"],
)
def test_a_write_beside_as_strided_is_rejected(function):
    """A mutation next to ``as_strided`` is rejected: functionalisation ignores memory outside of the base tensor."""
    with pytest.raises(NeedsEagerFallback, match="as_strided makes views of any memory"):
        check_no_as_strided_write(graph_of(function))


@pytest.mark.parametrize(
    "function", [lambda x: x.as_strided((2,), (1,)) * 2, lambda x: x.as_strided_((2,), (1,)), lambda x: x.add_(1)]
)
def test_others_are_compiled(function):
    """``as_strided`` alone, and a write alone, are compiled."""
    check_no_as_strided_write(graph_of(function))


@pytest.mark.compiles
def test_a_rejected_graph_has_eager_results_and_its_reason():
    """The record names the reason; the result and the mutated memory equal eager mode's."""

    def function(x):
        view = x[1:].as_strided((4,), (1,), 0)
        x.add_(1)
        return view * 2

    x, twin = torch.arange(4.0), torch.arange(4.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        record = nbcompile.explain(function)(x)
    assert torch.equal(function(twin), torch.arange(1.0, 5.0) * 2)
    assert torch.equal(x, twin)
    assert AS_STRIDED_WRITE_REASON in str(record)
