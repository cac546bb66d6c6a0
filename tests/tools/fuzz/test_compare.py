"""Comparison of two observations."""

from __future__ import annotations

import pytest
import torch

from nbcompile.tools.fuzz.compare import close, compare, differences, normalised, same_bits
from nbcompile.tools.fuzz.observe import Fact

NAN = torch.nan


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ([0.0], [-0.0], False),
        ([NAN], [-NAN], True),
        ([1.0], [1.0], True),
        ([True], [False], False),
        ([complex(0.0, -0.0)], [complex(0.0, 0.0)], False),
        ([2**62], [2**62 + 1], False),
    ],
)
def test_bits(one, other, same):
    """The sign of zero counts, that of NaN does not; integers are compared exactly."""
    assert same_bits(torch.tensor(one), torch.tensor(other)) == same


def test_another_dtype_or_shape_is_not_the_same():
    """Equal numbers of another dtype, or in another shape, differ."""
    assert not same_bits(torch.ones(2), torch.ones(2).double())
    assert not same_bits(torch.ones(2), torch.ones(2, 1))


def test_a_distance_is_measured_to_the_largest_element():
    """The tolerance is relative to the largest element; infinities must be equal."""
    large, epsilon = torch.tensor([1e6, 0.0]), torch.finfo(torch.float32).eps
    assert close(large, torch.tensor([1e6, 1.0]), epsilon)
    assert not close(large, torch.tensor([1e6, 100.0]), epsilon)
    assert not close(torch.tensor([0.0]), torch.tensor([1.0]), epsilon)
    assert not close(torch.tensor([torch.inf]), torch.tensor([-torch.inf]), epsilon)
    assert not close(torch.tensor([NAN, 1.0]), torch.tensor([1.0, 1.0]), epsilon)


def test_whole_numbers_are_not_close():
    """An integer that is off by one is a mistake, whatever its size."""
    assert not close(torch.tensor([10**9]), torch.tensor([10**9 + 1]), 1.0)


def fact(text, *elements):
    return Fact(text, torch.tensor(elements) if elements else None)


def test_the_aspects():
    """Presence, metadata, errors and elements are four kinds of differences, each with a path."""
    expected = {"[0]": fact("float32", 1.0), "[1]": fact("a"), "[2]": fact("float32", 1.0), "[3]": fact("b")}
    found = {"[0]": fact("float64", 1.0), "[1]": fact("raised KeyError"), "[2]": fact("float32", 2.0), "[4]": fact("c")}
    seen = [(each.aspect, each.path) for each in differences(expected, found, approximate=False)]
    assert seen == [("metadata", "[0]"), ("error", "[1]"), ("bits", "[2]"), ("type", "[3]"), ("type", "[4]")]
    assert compare(expected, expected, approximate=False) is None


def test_an_approximate_program_may_round():
    """The same distance is a difference in an exact program, and none in an approximate one."""
    one, other = {"": fact("float32", 1.0)}, {"": fact("float32", 1.0 + 1e-6)}
    assert compare(one, other, approximate=True) is None
    assert compare(one, other, approximate=False).aspect == "bits"
    assert compare(one, {"": fact("float32", 1.1)}, approximate=True).aspect == "value"


def test_messages_of_one_cause_are_equal():
    """Numbers, addresses and quoted names do not distinguish causes."""
    assert normalised("size 12 of 'x' at -1.5e3") == normalised('size 3 of "y" at 7')
    assert normalised("size 1") != normalised("stride 1")
