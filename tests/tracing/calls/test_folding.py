"""Tests for nbcompile.tracing.calls.folding: pure functions of known values are computed while tracing."""

from __future__ import annotations

import collections
import contextlib
import math
import operator
import typing
from typing import Any

import pytest
import torch

import nbcompile


class Point(typing.NamedTuple):
    x: float
    y: float


PROGRAMS: dict[str, Any] = {
    "a function of math": lambda x, a: x * math.gcd(a, 12),
    "a list in a list": lambda x, a: x * math.prod([a, math.prod([2, 3])]),
    "a named tuple": lambda x, a: x * math.dist(Point(a, 1), Point(1, 1)),
    "a deque": lambda x, a: x * math.fsum(collections.deque([a, 0.5], maxlen=4)),
    "values of a dict": lambda x, a: x * math.prod({"a": a, "b": 2}.values()),
    "an ordered dict": lambda x, a: x * math.prod(collections.OrderedDict(a=a, b=3).values()),
    "a set": lambda x, a: x * math.prod({a, 3}),
    "power with a modulus": lambda x, a: x * pow(a, 3, 7),
    "an index": lambda x, a: x[operator.index(True) :] * a,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_known_values_fold(name):
    """The result is eager mode's, and the graph has no node for the function."""
    function = PROGRAMS[name]
    x = torch.arange(3.0)
    assert torch.equal(nbcompile.compile(function, backend="eager", fullgraph=True)(x, 5), function(x, 5))
    (frame,) = nbcompile.explain(function)(x, 5).record.frames
    called = [node.target for node in frame.graph.nodes if node.op.startswith("call")]
    assert not [target for target in called if "math" in target or "pow" in target]


def test_a_container_with_a_tensor_does_not_fold():
    """A tensor in the list is not known while tracing, so the graph breaks; the result equals eager mode's."""

    def function(x: torch.Tensor) -> float:
        return math.fsum([x.sum(), 1.0]) * 2

    assert nbcompile.compile(function, backend="eager")(torch.ones(2)) == function(torch.ones(2))


def _error_of_hooks():
    return torch._C._autograd._saved_tensors_hooks_get_disabled_error_message()


def test_the_error_of_disabled_hooks_is_that_of_the_call():
    """A guard checks the message at the start of the frame; a message that the frame sets itself needs no guard."""
    disabled = torch.autograd.graph.disable_saved_tensors_hooks

    def asks(x):
        return x * 2, _error_of_hooks()

    def changes(x):
        with disabled("one"):
            with disabled("two"):
                inner = _error_of_hooks()
            middle = _error_of_hooks()
        return x * 2, inner, middle, _error_of_hooks()

    def breaks(x):
        with disabled("one"):
            y = x * 2
            torch._dynamo.graph_break()
            return y + 1, _error_of_hooks()

    for function in (asks, changes, breaks):
        compiled = nbcompile.compile(function, backend="eager")
        for outer in (None, "outer", "other", None):
            with disabled(outer) if outer else contextlib.nullcontext():
                found, wanted = compiled(torch.ones(2))[1:], function(torch.ones(2))[1:]
                assert found == wanted
                assert _error_of_hooks() == outer
