"""Tests for nbcompile.tracing.calls.extremes: ``min`` and ``max`` choose the same values as CPython."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import nbcompile

PROGRAMS: dict[str, Any] = {
    "the first of equal items": lambda x, a: max([(1, "a"), (1, "b")], key=lambda pair: pair[0])[1],
    "the first of equal items, smallest": lambda x, a: min([(1, "a"), (1, "b")], key=lambda pair: pair[0])[1],
    "a key that is None": lambda x, a: max([a, 2], key=None),
    "a default for nothing": lambda x, a: max([], default=a),
    "a default that is not needed": lambda x, a: min([a], default=7),
    "several arguments": lambda x, a: max(a, 9, 4),
    "an iterator": lambda x, a: min(i * i - a for i in range(-3, 3)),
    "of two kinds": lambda x, a: (max(True, a), max(a, 3.0), min(3, 3.0), min(3.0, 3)),
    "a tensor and a number": lambda x, a: max(x.sum(), a),
    "two tensors": lambda x, a: min(x[0], x[1]),
    "tensors by key": lambda x, a: max([x, x + 1], key=lambda tensor: float(tensor.shape[0] * a)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_extremes_are_pythons(name):
    """Items, ties, keys and defaults have the same effect as in CPython."""
    function = PROGRAMS[name]
    x = torch.tensor([3.0, -1.0])
    expected, got = function(x, 5), nbcompile.compile(function, backend="eager")(x, 5)
    assert repr(got) == repr(expected)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: max([]),
        lambda x: max(1, 2, default=3),
        lambda x: min(1, "a"),
        lambda x: max(1),
    ],
    ids=["empty", "a default beside arguments", "not comparable", "not iterable"],
)
def test_errors_are_pythons(function):
    """Values that cannot be compared, iterated over or added raise CPython's exception."""
    with pytest.raises((ValueError, TypeError)) as expected:
        function(torch.ones(1))
    with pytest.raises(type(expected.value)) as got:
        nbcompile.compile(function, backend="eager")(torch.ones(1))
    assert str(got.value) == str(expected.value)


def test_extremes_of_sizes_are_nodes():
    """``max`` of a symbolic size is a node of the graph, so one graph serves all sizes."""
    function = nbcompile.compile(lambda x: x.sum() * max(x.shape[0], 4), backend="eager", dynamic=True, fullgraph=True)
    assert function(torch.ones(2)).item() == 8
    with nbcompile.set_stance("fail_on_recompile"):
        for size in (3, 4, 5, 9):
            assert function(torch.ones(size)).item() == size * max(size, 4)


NAN = float("nan")
PAIRS = [(3.0, 2), (3.0, 5), (NAN, 1.0), (1.0, NAN), (0.0, -0.0), (-0.0, 0.0), (2, 2.5), (2.5, 2)]


@pytest.mark.parametrize("pair", PAIRS, ids=str)
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_a_tensor_and_a_number(pair, backend):
    """The result is the same tensor or the same number as in eager mode, with its type."""
    number, tensor = pair[1], torch.tensor(pair[0])
    for function in (lambda t: max(t, number), lambda t: min(t, number), lambda t: max(number, t)):
        expected, got = function(tensor), nbcompile.compile(function, backend=backend)(tensor)
        assert repr(got) == repr(expected)
        assert (got is tensor) is (expected is tensor)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_two_tensors(pair, backend):
    """The first tensor is the result unless the second is strictly better, also with NaN, zeros and other dtypes."""
    tensors = [torch.tensor(number) for number in pair]
    for function in (lambda a, b: max(a + 0, b + 0), lambda a, b: min(b * 1, a * 1)):
        assert repr(nbcompile.compile(function, backend=backend)(*tensors)) == repr(function(*tensors))


def test_two_tensors_of_a_kind_are_one_graph():
    """A choice between tensors of one dtype is a node, without a guard; the gradient flows to the chosen tensor."""
    function = nbcompile.compile(lambda a, b: max(a * 2, b * 2), backend="inductor", fullgraph=True)
    for values in ((1.0, 2.0), (2.0, 1.0), (1.0, 1.0)):
        a, b = (torch.tensor(value, requires_grad=True) for value in values)
        function(a, b).backward()
        assert (a.grad.item(), b.grad.item()) == ((0.0, 2.0) if values[1] > values[0] else (2.0, 0.0))
